//! What the pages of wharf use of a program, out of the prelude alone.

use wharf::prelude::*;

/// What became of a frame that two may send.
#[derive(Debug)]
enum Sent {
    Pushed(PushError),
    Read(ReadError),
    Cut(SliceError),
    Moved(TransferError),
}

fn used<B: Accounted>(channel: &B) -> usize {
    channel.usage().class(UsageClass::WEIGHT).in_use
}

fn wait<B: Waits>(memory: &B) -> Result<usize, AllocError> {
    memory.recheck();
    memory.alloc(1).map(|segment| segment.len())
}

fn place<T: Target>(tensor: &Tensor<T>) -> Option<Place> {
    tensor.place()
}

fn claim<T: Target>(tensor: &Tensor<T>) -> Option<Ticket<T>> {
    tensor.begin(Access::Read, Stream::claim().ok()?.id()).ok()
}

fn first<R: wharf::backend::BackendRef>(rope: &mut Rope<R>, link: View<R>) -> Result<u8, Sent> {
    let pushed: Result<(), Returned<_, PushError>> = rope.push(link);
    pushed.map_err(|refused| Sent::Pushed(refused.error))?;
    let [byte] = rope.slice(..1).map_err(Sent::Cut)?.cursor().read_array().map_err(Sent::Read)?;
    rope.links()[0].read(0, &mut [0]).map_err(Sent::Moved)?;
    Ok(byte)
}

fn main() {
    let mut slab = [const { core::mem::MaybeUninit::uninit() }; 64];
    let mut control = [const { SlotControl::<Unsync>::NEW }; 4];
    let pool = ShardedPool::<_, 2>::new(&mut slab, &mut control, 16, 1).unwrap();
    let link = View::from(pool.alloc(2).unwrap().init_from(b"ab").unwrap());
    assert_eq!(first(&mut Rope::new(), link).unwrap(), b'a');

    let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    assert!(matches!(place(&tensor), Some(Place::Host(_))));
    assert!(claim(&tensor).is_some());
}
