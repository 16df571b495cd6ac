//! What a channel accounts for: how it is asked through a [`Tagged`], and what a person reads of it.
#![cfg(feature = "std")]

use core::cell::{Cell, RefCell};
use core::error::Error as _;
use core::ptr::NonNull;

use wharf_backend::usage::{
    Accounted, Allocation, BadAlignment, Breakdown, ChannelId, EventRing, Tag, Tagged, UsageBooks,
    UsageClass, UsageEvent, UsageEventKind,
};
use wharf_backend::{
    AllocError, AllocHint, BackendExt, Caps, Census, DeviceAddress, Group, GroupError, Header,
    IoDirection, MemBackend, MemSpace, Place, SegmentMut, StaticPool, TransferError,
};
use wharf_source::HeapSource;
use wharf_sync::Unsync;

type Raw = NonNull<Header<Unsync>>;

/// A channel of two slots of 64 bytes at multiples of 16, which says of itself what no default does.
struct Bank {
    pool: StaticPool<Unsync, 64, 2>,
    id: ChannelId,
    closed: Cell<bool>,
    /// With what it was asked.
    asked: RefCell<Vec<(usize, AllocHint, Tag)>>,
    log: RefCell<Vec<(&'static str, usize, usize)>>,
    books: RefCell<UsageBooks>,
    ring: RefCell<EventRing<4>>,
}

impl Bank {
    fn new(index: u8) -> Self {
        Self {
            pool: StaticPool::new(),
            id: ChannelId::new(1, index),
            closed: Cell::new(false),
            asked: RefCell::default(),
            log: RefCell::default(),
            books: RefCell::new(UsageBooks::new(128)),
            ring: RefCell::default(),
        }
    }
    fn log(&self, what: &'static str, offset: usize, len: usize) -> Result<(), TransferError> {
        self.log.borrow_mut().push((what, offset, len));
        if self.closed.get() {
            return Err(TransferError::Closed);
        }
        Ok(())
    }
    fn happened(&self, kind: UsageEventKind, bytes: usize, class: UsageClass, tag: &str) {
        self.ring.borrow_mut().push(UsageEvent {
            kind,
            class,
            bytes,
            address: None,
            tag: Tag::new(tag),
        });
    }
}

// SAFETY: every header comes from the pool and goes back to it; device addresses reach nothing.
unsafe impl MemBackend for Bank {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<Raw> {
        self.vend_tagged(size, hint, &Tag::NONE)
    }
    fn refusal(&self, requested: usize, hint: AllocHint) -> AllocError {
        AllocError::OutOfMemory {
            requested,
            available: 100,
            largest_free: 40,
            channel: self.id,
            class: hint.class(),
        }
    }
    unsafe fn reclaim(&self, header: Raw) {
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }
    unsafe fn place(&self, header: Raw) -> Place {
        // SAFETY: as the caller promises.
        match unsafe { self.pool.place(header) } {
            Place::Host(base) => Place::Device(DeviceAddress::new(base.addr().get() as u64)),
            device @ Place::Device(_) => device,
        }
    }
    fn may_own(&self, header: Raw) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::NEEDS_CACHE_OPS
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn alignment(&self) -> usize {
        16
    }
    fn max_segment_size(&self) -> usize {
        self.max_segment_size_for(AllocHint::NONE)
    }
    fn census(&self) -> Census {
        self.pool.census()
    }
    fn name(&self) -> &'static str {
        "bank"
    }
    unsafe fn before_io(&self, _: Raw, offset: usize, len: usize, _: IoDirection) {
        let _ = self.log("before", offset, len);
    }
    unsafe fn after_io(&self, _: Raw, offset: usize, len: usize, _: IoDirection) {
        let _ = self.log("after", offset, len);
    }
    unsafe fn copy_in(
        &self,
        header: Raw,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.log("in", offset, len)?;
        // SAFETY: as the caller promises.
        unsafe { self.pool.copy_in(header, offset, source, len) }
    }
    unsafe fn copy_out(
        &self,
        header: Raw,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.log("out", offset, len)?;
        // SAFETY: as the caller promises.
        unsafe { self.pool.copy_out(header, offset, destination, len) }
    }
    unsafe fn fill(
        &self,
        header: Raw,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.log("fill", offset, len)?;
        // SAFETY: as the caller promises.
        unsafe { self.pool.fill(header, offset, len, byte) }
    }
}

// SAFETY: as for `MemBackend`.
unsafe impl Accounted for Bank {
    fn channel(&self) -> ChannelId {
        self.id
    }
    fn vend_tagged(&self, size: usize, hint: AllocHint, tag: &Tag) -> Option<Raw> {
        self.asked.borrow_mut().push((size, hint, *tag));
        let vended = self.pool.vend(size, AllocHint::NONE);
        let (kind, class) = match vended {
            Some(_) => (UsageEventKind::Alloc, hint.class()),
            None => (UsageEventKind::Refusal, hint.class()),
        };
        self.happened(kind, size, class, tag.as_str());
        match vended {
            Some(_) => self.books.borrow_mut().take(class, 64),
            None => self.books.borrow_mut().refuse(class, size),
        }
        vended
    }
    /// What an alignment beyond its own costs is never free; on its host half the device's own classes are not served.
    fn max_segment_size_for(&self, hint: AllocHint) -> usize {
        match (hint.class().is_device_only(), hint.alignment()) {
            (true, _) | (_, 65..) => 0,
            (false, ..=16) => 64,
            (false, _) => 48,
        }
    }
    unsafe fn allocation(&self, _: Raw) -> Allocation {
        let (asked, hint, tag) = *self.asked.borrow().last().expect("it was asked");
        Allocation {
            channel: self.id,
            address: DeviceAddress::new(0x1040),
            asked,
            allocated: 64,
            align_offset: 0,
            class: hint.class(),
            tag,
        }
    }
    fn usage(&self) -> UsageBooks {
        *self.books.borrow()
    }
    fn largest_free(&self) -> usize {
        40
    }
    fn recorded(&self) -> u64 {
        self.ring.borrow().recorded()
    }
    fn event(&self, number: u64) -> Option<UsageEvent> {
        self.ring.borrow().get(number).copied()
    }
}

#[test]
fn a_channel_says_of_itself_the_same_through_a_tag() {
    let bank = Bank::new(3);
    let tagged = Tagged::new(&bank, "conv1", UsageClass::WEIGHT);
    assert_eq!((tagged.name(), tagged.space()), ("bank", MemSpace::Device));
    assert_eq!(tagged.caps(), Caps::OWNS_BYTES | Caps::NEEDS_CACHE_OPS);
    assert_eq!((tagged.alignment(), tagged.max_segment_size()), (16, 64));
    assert_eq!(tagged.class(), UsageClass::WEIGHT);
    assert_eq!(tagged.tag().as_str(), "conv1");
    assert!(core::ptr::eq(*Tagged::channel(&tagged), &raw const bank));
    assert_eq!(Accounted::channel(&tagged), ChannelId::new(1, 3));
    assert_eq!(tagged.largest_free(), 40);

    // Below the channel's own alignment nothing is added, above it that is what segments have.
    assert_eq!(tagged.aligned(8).unwrap().alignment(), 16);
    let wide = tagged.aligned(32).unwrap();
    assert_eq!((wide.alignment(), wide.max_segment_size()), (32, 48));
    assert_eq!(wide.class(), UsageClass::WEIGHT);
    assert_eq!(wide.tag().as_str(), "conv1");
    let alignment = 48;
    let refused = tagged.aligned(alignment).err();
    assert_eq!(refused, Some(BadAlignment { alignment }));
    // The largest of a request, completed by what the tag wishes.
    assert_eq!(wide.max_segment_size_for(AllocHint::NONE), 48);
    assert_eq!(tagged.max_segment_size_for(AllocHint::NONE), 64);
    let scratch = AllocHint::of(UsageClass::SCRATCHPAD);
    assert_eq!(wide.max_segment_size_for(scratch), 0);

    let segment = SegmentMut::alloc(tagged, 20).unwrap();
    let (header, tagged) = segment.into_raw();
    assert!(tagged.may_own(header));
    assert!(!tagged.may_own(NonNull::dangling()));
    assert_eq!(tagged.census(), bank.pool.census());
    assert_eq!(tagged.census().in_use, 1);
    assert_eq!(tagged.usage(), bank.usage());
    assert_eq!(tagged.usage().class(UsageClass::WEIGHT).in_use, 64);
    // SAFETY: taken apart above, and put together once.
    drop(unsafe { SegmentMut::<_, wharf_backend::Uninit>::from_raw(header, tagged) }.unwrap());
    assert_eq!(bank.census().in_use, 0);

    assert_eq!(
        tagged.alloc(65).unwrap_err(),
        bank.refusal(65, AllocHint::of(UsageClass::WEIGHT))
    );
    assert_eq!(tagged.recorded(), 2);
    let event = |number| tagged.event(number).map(|event| (event.kind, event.bytes));
    assert_eq!(event(0), Some((UsageEventKind::Alloc, 20)));
    assert_eq!(event(1), Some((UsageEventKind::Refusal, 65)));
    assert_eq!(event(2), None);
}

#[test]
fn a_tag_completes_what_a_request_does_not_wish() {
    let bank = Bank::new(0);
    let tagged = Tagged::new(&bank, "conv1", UsageClass::WEIGHT);
    let tagged = tagged.aligned(32).unwrap();
    let ring = AllocHint::of(UsageClass::RING);
    let cases = [
        // Class 2 at 2^5.
        (AllocHint::NONE, 0x0502),
        // Another class goes before, and of two alignments the larger.
        (ring, 0x0508),
        (ring.aligned(16).unwrap(), 0x0508),
        (ring.aligned(64).unwrap(), 0x0608),
        // The upper half is the backend's own; what no field is, is not handed on.
        (AllocHint(0xABCD_0000), 0xABCD_0502),
        (AllocHint(0xABCD_C0E0), 0xABCD_0502),
        (AllocHint(0xFFFF_0000 | ring.0), 0xFFFF_0508),
    ];
    for (hint, expected) in cases {
        bank.asked.borrow_mut().clear();
        drop(SegmentMut::alloc_with(tagged, 7, hint).unwrap());
        let asked = (7, AllocHint(expected), Tag::new("conv1"));
        assert_eq!(*bank.asked.borrow(), [asked], "{hint:?}");
        // A caller's own name goes before.
        bank.asked.borrow_mut().clear();
        let header = tagged.vend_tagged(7, hint, &Tag::new("bias")).unwrap();
        // SAFETY: just vended, and nobody has a handle.
        unsafe { tagged.reclaim(header) };
        let asked = (7, AllocHint(expected), Tag::new("bias"));
        assert_eq!(*bank.asked.borrow(), [asked], "{hint:?}");
        // And so is a refusal's class.
        let AllocError::OutOfMemory { class, .. } = tagged.refusal(7, hint) else {
            panic!("what the bank says");
        };
        assert_eq!(class, AllocHint(expected).class());
    }
    assert_eq!(bank.census().in_use, 0);
}

#[test]
fn bytes_move_through_a_tag_as_they_do_without() {
    let bank = Bank::new(0);
    let tagged = Tagged::new(&bank, "", UsageClass::IO);
    let mut segment = SegmentMut::alloc(tagged, 16).unwrap().filled(1).unwrap();
    bank.log.borrow_mut().clear();
    segment.write(2, b"abc").unwrap();
    let mut bytes = [0; 3];
    segment.read(2, &mut bytes).unwrap();
    assert_eq!(bytes, *b"abc");
    segment.fill(15, 1, 9).unwrap();
    let moved = [
        [("before", 2, 3), ("in", 2, 3), ("after", 2, 3)],
        [("before", 2, 3), ("out", 2, 3), ("after", 2, 3)],
        [("before", 15, 1), ("fill", 15, 1), ("after", 15, 1)],
    ];
    assert_eq!(*bank.log.borrow(), moved.concat());
    bank.closed.set(true);
    assert_eq!(segment.write(0, b"x").unwrap_err(), TransferError::Closed);
    let Place::Device(_) = segment.place() else {
        panic!("it is device memory");
    };
}

#[test]
fn a_live_segment_says_where_it_is_and_what_for() {
    let bank = Bank::new(2);
    let tagged = Tagged::new(&bank, "conv1", UsageClass::WEIGHT);
    let segment = SegmentMut::alloc(tagged, 48).unwrap();
    let known = segment.allocation();
    let expected = Allocation {
        channel: ChannelId::new(1, 2),
        address: DeviceAddress::new(0x1040),
        asked: 48,
        allocated: 64,
        align_offset: 0,
        class: UsageClass::WEIGHT,
        tag: Tag::new("conv1"),
    };
    assert_eq!(known, expected);
    assert_eq!(
        known.to_string(),
        "0x1040 on channel 1.2: 48 bytes of 64, weight 'conv1'"
    );
    let nameless = Allocation {
        tag: Tag::NONE,
        ..known
    };
    assert_eq!(
        nameless.to_string(),
        "0x1040 on channel 1.2: 48 bytes of 64, weight"
    );
    let channel = ChannelId::new(0x102, 7);
    assert_eq!((channel.device(), channel.index()), (258, 7));
    assert_eq!(channel.to_string(), "channel 258.7");
}

#[test]
fn books_are_a_table_of_what_ever_was_asked_for() {
    let mut books = UsageBooks::new(4096);
    books.take(UsageClass::WEIGHT, 2048);
    books.take(UsageClass::IO, 512);
    books.give(UsageClass::IO, 512);
    books.refuse(UsageClass::RING, 3000);
    assert_eq!(
        books.to_string(),
        "class             in use         peak  refused      largest\n\
         weight              2048         2048        0            0\n\
         io                     0          512        0            0\n\
         ring                   0            0        1         3000\n\
         total               2048         2560        1         3000 of 4096 bytes"
    );
}

#[test]
fn a_refusal_names_who_asked_and_who_has_the_memory() {
    use UsageEventKind::{Alloc, Refusal};
    let (io, weight) = (UsageClass::IO, UsageClass::WEIGHT);
    let banks = [Bank::new(0), Bank::new(1)];
    // Only the last refusal of that size and class, by that channel, is meant.
    banks[0].happened(Refusal, 4096, weight, "elsewhere");
    banks[1].happened(Refusal, 4096, weight, "earlier");
    banks[1].happened(Refusal, 4096, weight, "conv2");
    banks[1].happened(Alloc, 4096, weight, "served");
    banks[1].happened(Refusal, 512, weight, "smaller");
    banks[1].books.borrow_mut().take(io, 96);
    let channels = banks.each_ref();
    let error = AllocError::OutOfMemory {
        requested: 4096,
        available: 100,
        largest_free: 40,
        channel: ChannelId::new(1, 1),
        class: weight,
    };
    let breakdown = Breakdown::new(error, &channels);
    assert_eq!(*breakdown.error(), error);
    assert_eq!(breakdown.tag().as_str(), "conv2");
    assert_eq!(
        breakdown.to_string(),
        "'conv2': 4096 bytes of class weight asked, 100 free on channel 1.1, the largest range has 40 ('bank')\n\
         \n\
         channel 1.0 'bank', largest free range 40 bytes\n\
         class             in use         peak  refused      largest\n\
         total                  0            0        0            0 of 128 bytes\n\
         \n\
         channel 1.1 'bank', largest free range 40 bytes\n\
         class             in use         peak  refused      largest\n\
         io                    96           96        0            0\n\
         total                 96           96        0            0 of 128 bytes"
    );
    // Another class, a channel that is not among them, and an error that is not about a channel: nobody is named.
    let nobody = [
        AllocError::OutOfMemory {
            requested: 4096,
            available: 100,
            largest_free: 40,
            channel: ChannelId::new(1, 1),
            class: io,
        },
        AllocError::OutOfMemory {
            requested: 4096,
            available: 100,
            largest_free: 40,
            channel: ChannelId::new(2, 1),
            class: weight,
        },
        AllocError::Closed,
    ];
    for error in nobody {
        let breakdown = Breakdown::new(error, &channels);
        assert!(breakdown.tag().is_none());
        let text = breakdown.to_string();
        // With the name of the channel, where it is one of these.
        let named = matches!(error, AllocError::OutOfMemory { channel, .. } if channel == ChannelId::new(1, 1));
        let name = if named { " ('bank')" } else { "" };
        assert!(text.starts_with(&format!("{error}{name}\n")), "{text}");
    }
}

#[test]
fn a_group_over_a_closed_channel_has_no_member_without_values() {
    let bank = Bank::new(0);
    let mut group = Group::new(&bank, HeapSource);
    bank.closed.set(true);
    let error = group.alloc(8).unwrap_err();
    assert_eq!(error, GroupError::Transfer(TransferError::Closed));
    assert_eq!(error, TransferError::Closed.into());
    assert_eq!((group.len(), bank.census().in_use), (0, 0));
    let cause = |error: &GroupError| error.source().map(ToString::to_string);
    assert_eq!(error.to_string(), "the device is closed");
    assert_eq!(cause(&error).as_deref(), Some("the device is closed"));
    let refused = GroupError::from(AllocError::Heap { requested: 9 });
    assert_eq!(
        refused,
        GroupError::Alloc(AllocError::Heap { requested: 9 })
    );
    assert_eq!(refused.to_string(), "the heap refused 9 bytes");
    assert_eq!(cause(&refused).as_deref(), Some("the heap refused 9 bytes"));
    bank.closed.set(false);
    assert!(group.alloc(8).is_ok());
    assert!(!group.is_empty());
}
