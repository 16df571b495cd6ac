//! What the tests of the device share.
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::Arc;
use std::sync::mpsc::Sender;

use wharf_backend::{Init, Place, SegmentMut};
use wharf_engine::{
    Cargo, Command, Descriptor, Engine, Fault, Kernel, KernelFault, Lent, Operand, Returned,
    Sequence, SubmitError,
};
use wharf_softdma::{Channel, Config, SoftDma};

pub(crate) type Buffer = SegmentMut<Arc<Channel>, Init>;
pub(crate) type Outcome = Result<(), Fault>;

/// Bytes of the devices in these tests.
pub(crate) const MEMORY: usize = 1 << 16;

/// A cargo that owns buffers, and tells that it landed and that it was dropped.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) id: u32,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) landed: Option<Outcome>,
    pub(crate) news: Option<Sender<News>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Landed(u32, Outcome),
    Dropped(u32),
}

impl Load {
    pub(crate) fn new(id: u32) -> Self {
        Self {
            id,
            buffers: Vec::new(),
            landed: None,
            news: None,
        }
    }

    pub(crate) fn telling(mut self, news: &Sender<News>) -> Self {
        self.news = Some(news.clone());
        self
    }

    pub(crate) fn holding(mut self, buffer: Buffer) -> Self {
        self.buffers.push(buffer);
        self
    }

    fn tell(&self, news: News) {
        if let Some(listener) = &self.news {
            // A test that stopped listening does not care.
            let _ = listener.send(news);
        }
    }
}

impl Cargo for Load {
    fn landed(&mut self, outcome: Outcome) {
        assert_eq!(self.landed, None, "lands once");
        self.landed = Some(outcome);
        self.tell(News::Landed(self.id, outcome));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tell(News::Dropped(self.id));
    }
}

pub(crate) fn open<const SLOTS: usize>() -> SoftDma<Load, SLOTS> {
    SoftDma::open(Config::new(MEMORY)).expect("a small device")
}

pub(crate) fn buffer<C: Cargo + Send + 'static, const SLOTS: usize>(
    device: &SoftDma<C, SLOTS>,
    bytes: &[u8],
) -> Buffer {
    SegmentMut::alloc(device.channel(), bytes.len())
        .expect("room in the device")
        .init_from(bytes)
        .expect("an open device")
}

pub(crate) fn bytes(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0xEE; buffer.len()];
    buffer.read(0, &mut bytes).expect("an open device");
    bytes
}

pub(crate) fn read(buffer: &Buffer) -> Operand {
    Operand::read(buffer.place(), buffer.len())
}

pub(crate) fn write(buffer: &Buffer) -> Operand {
    Operand::write(buffer.place(), buffer.len())
}

/// Submits. In these tests every operand is a buffer that the cargo owns, or one that the test leaves alone until
/// the cargo has landed.
pub(crate) fn submit<E: Engine>(
    device: &E,
    command: Command,
    operands: &[Operand],
    cargo: E::Cargo,
) -> Result<Sequence, Returned<E::Cargo, SubmitError>> {
    let descriptor = Descriptor::new(command, operands).expect("a descriptor");
    // SAFETY: see above; device memory is always initialised.
    unsafe { device.submit(descriptor, cargo) }
}

/// A kernel that does nothing.
pub(crate) const NOTHING: Command = Command::Kernel(|_| Ok(()));

/// Appends the first operand's byte to the second, whose first byte counts.
pub(crate) const APPEND: Kernel = |operands| {
    let [Lent::Read([byte]), Lent::Write(list)] = operands else {
        return Err(KernelFault(1));
    };
    let count = usize::from(list[0]) + 1;
    list[count] = *byte;
    list[0] += 1;
    Ok(())
};

/// A place on no device.
pub(crate) fn host_place(byte: &mut u8) -> Place {
    Place::Host(core::ptr::NonNull::from(byte))
}

/// Makes a kernel that stops in the middle: `let (started, release, kernel) = gate!();` Wait on the one, then on the other.
#[macro_export]
macro_rules! gate {
    () => {{
        static STARTED: std::sync::Barrier = std::sync::Barrier::new(2);
        static RELEASE: std::sync::Barrier = std::sync::Barrier::new(2);
        let kernel = wharf_engine::Command::Kernel(|_| {
            STARTED.wait();
            RELEASE.wait();
            Ok(())
        });
        (&STARTED, &RELEASE, kernel)
    }};
}
