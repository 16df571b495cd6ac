//! What the memory promises: ranges of its own for every segment, exact books, transfers.

mod common;

use core::ptr::NonNull;
use std::sync::{Arc, Barrier};
use std::thread;

use common::{MEMORY, buffer, bytes, open};
use proptest::prelude::*;
use wharf_backend::usage::{Tagged, UsageClass};
use wharf_backend::{
    AllocError, AllocHint, BackendExt, BackendRef, Caps, Header, Init, MemBackend, MemSpace,
    NotHostAddressable, Place, SegmentMut, TransferError, Uninit,
};
use wharf_softdma::{Channel, Config, SoftDma};
use wharf_sync::Blocking;

/// The memory of a device that was opened for it and is kept open by the first.
fn memory(bytes: usize) -> (SoftDma<()>, Arc<Channel>) {
    let device = SoftDma::open(Config::new(bytes)).unwrap();
    let channel = device.channel();
    (device, channel)
}

/// The offset of a segment in its channel.
fn offset<R: BackendRef>(segment: &SegmentMut<R>, channel: &Channel) -> usize {
    let Place::Device(address) = segment.place() else {
        panic!("device memory");
    };
    usize::try_from(address.get() - channel.base().get()).expect("in the channel")
}

#[test]
fn the_books_are_worked_out() {
    let (_device, channel) = memory(1000);
    assert_eq!(channel.capacity(), 1024, "whole granules");
    assert_eq!(channel.max_segment_size(), 1024);
    let a = channel.alloc(1).unwrap().initialised().unwrap();
    let mut b = channel.alloc(64).unwrap().initialised().unwrap();
    let c = channel.alloc(65).unwrap().initialised().unwrap();
    let empty = channel.alloc(0).unwrap().initialised().unwrap();
    assert_eq!((a.len(), b.len(), c.len(), empty.len()), (1, 64, 65, 0));
    // 64 + 64 + 128 + 64: also no bytes take a granule.
    assert_eq!(channel.census().in_use, 320);
    let offsets = [&a, &b, &c, &empty].map(|segment| offset(segment, &channel));
    assert_eq!(offsets, [0, 64, 128, 256]);
    drop(c);
    b.write(10, &[1, 2, 3]).unwrap();
    b.fill(0, 5, 9).unwrap();
    let mut back = [0; 14];
    b.read(0, &mut back).unwrap();
    assert_eq!(back, [9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 1, 2, 3, 0]);
    assert_eq!(
        channel.alloc(705).unwrap_err(),
        AllocError::OutOfMemory {
            requested: 705,
            available: 832,
            largest_free: 704,
            channel: channel.id(),
            class: UsageClass::GENERIC,
        }
    );
    assert_eq!(
        channel.alloc(1025).unwrap_err(),
        AllocError::TooLarge {
            requested: 1025,
            max: 1024
        }
    );
    assert!(channel.alloc(usize::MAX).is_err());
    let ledger = channel.ledger();
    assert_eq!(ledger.census, channel.census());
    assert_eq!(ledger.census.largest_refused, usize::MAX);
    let shown = ledger.to_string();
    let line = shown.lines().next().unwrap();
    assert_eq!(
        line.replace(&usize::MAX.to_string(), "MAX")
            .replace(&channel.id().to_string(), "CHANNEL"),
        "CHANNEL 'softdma': 192 of 1024 bytes in use, peak 320, 3 refused (largest MAX bytes); \
         3 segments live, peak 4, 4 allocated, 1 freed, largest free 704 bytes; \
         3 bytes moved in, 14 out, 5 filled, 0 copied, by 3 submissions"
    );
}

#[test]
fn a_channel_is_device_memory_and_says_so() {
    let device = open::<4>();
    let channel = device.channel();
    let caps = Caps::OWNS_BYTES | Caps::VENDS_INITIALISED | Caps::ENGINE_ADDRESSED;
    assert_eq!(channel.caps(), caps);
    assert_eq!(
        (channel.space(), channel.alignment()),
        (MemSpace::Device, 64)
    );
    assert_eq!(channel.name(), "softdma");
    let mut segment = buffer(&device, &[1, 2, 3]);
    assert_eq!(segment.host(), Err(NotHostAddressable));
    assert_eq!(segment.host_mut(), Err(NotHostAddressable));
    assert_ne!(channel.base().get(), 0);
    assert_eq!(channel.base().get() % 64, 0);
    // Erased, it is the same.
    type Erased = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
    let mut erased: SegmentMut<Erased> = segment.erase();
    erased.write(1, &[9]).unwrap();
    let mut host = [0; 3];
    erased.read(0, &mut host).unwrap();
    assert_eq!(host, [1, 9, 3]);
    let any: Erased = channel.clone();
    let second = SegmentMut::alloc(any, 3).unwrap();
    assert_eq!(channel.ledger().segments, 2);
    drop((erased, second));
    assert_eq!(channel.ledger().segments, 0);
}

#[test]
fn transfers_stay_in_their_segment() {
    let device = open::<4>();
    let mut segment = buffer(&device, &[7; 8]);
    let neighbour = buffer(&device, &[8; 64]);
    let out = |offset, len| {
        let size = 8;
        Err(TransferError::OutOfBounds { offset, len, size })
    };
    assert_eq!(segment.write(8, &[1]), out(8, 1));
    assert_eq!(segment.write(0, &[1; 9]), out(0, 9));
    assert_eq!(segment.read(usize::MAX, &mut [0]), out(usize::MAX, 1));
    assert_eq!(segment.fill(4, 5, 0), out(4, 5));
    assert_eq!(segment.write(8, &[]), Ok(()));
    assert_eq!(bytes(&segment), [7; 8]);
    assert_eq!(bytes(&neighbour), [8; 64]);
    let ledger = device.channel().ledger();
    assert_eq!((ledger.bytes_in, ledger.bytes_out), (72, 72));
}

#[test]
fn memory_starts_as_zero_and_is_used_again_as_it_was() {
    let (_device, channel) = memory(128);
    let first = channel.alloc(128).unwrap().initialised().unwrap();
    let mut host = [1; 128];
    first.read(0, &mut host).unwrap();
    assert_eq!(host, [0; 128]);
    drop(first);
    drop(channel.alloc(128).unwrap().filled(3).unwrap());
    let again = channel.alloc(128).unwrap().initialised().unwrap();
    again.read(0, &mut host).unwrap();
    assert_eq!(host, [3; 128]);
}

#[test]
fn an_unused_memory_is_one_segment_whatever_its_size() {
    for granules in [1, 7, 17, 100, 1000, 12_345] {
        let (_device, channel) = memory(granules * 64);
        let whole = channel.alloc(granules * 64).unwrap();
        assert_eq!(channel.ledger().largest_free, 0);
        assert!(channel.alloc(0).is_err());
        drop(whole);
        // In pieces, given back in another order, it joins again.
        let mut pieces: Vec<_> = (0..granules).map(|_| channel.alloc(64).unwrap()).collect();
        assert_eq!(channel.census().in_use, channel.capacity());
        for index in (0..granules)
            .rev()
            .step_by(2)
            .chain((0..granules / 2).rev())
        {
            drop(pieces.swap_remove(index.min(pieces.len() - 1)));
        }
        pieces.clear();
        assert_eq!(channel.ledger().largest_free, granules * 64);
        drop(channel.alloc(granules * 64).unwrap());
    }
}

#[test]
fn what_is_not_its_own_is_refused() {
    let (_device, channel) = memory(MEMORY);
    let (_other_device, other) = memory(MEMORY);
    let foreign = |header: NonNull<Header<Blocking>>| {
        // SAFETY: a pointer that the channel refuses is harmless, and it has to refuse all of these.
        let refused = unsafe { SegmentMut::<_, Uninit>::from_raw(header, channel.clone()) };
        assert_eq!(refused.unwrap_err().address, header.addr().get());
    };
    // Alive on another channel, and this one's own until it is put together again.
    let theirs = SegmentMut::alloc(other.clone(), 8).unwrap();
    let (header, backend) = theirs.into_raw();
    foreign(header);
    assert!(other.may_own(header));
    // SAFETY: taken apart above, in this state.
    drop(unsafe { SegmentMut::<_, Uninit>::from_raw(header, backend) }.unwrap());
    assert!(!other.may_own(header), "reclaimed");
    let (header, backend) = SegmentMut::alloc(channel.clone(), 8).unwrap().into_raw();
    assert!(channel.may_own(header));
    // Inside of a live block, dangling, and a header on the stack.
    foreign(header.map_addr(|address| address.saturating_add(8)));
    foreign(NonNull::dangling());
    let mut own = Header::new(8);
    foreign(NonNull::from(&mut own));
    // SAFETY: taken apart above, in this state.
    let back = unsafe { SegmentMut::<_, Uninit>::from_raw(header, backend) }.unwrap();
    drop(back);
    foreign(header);
    assert_eq!((channel.ledger().segments, other.ledger().segments), (0, 0));
}

/// A stamp that names the segment in each of its bytes' places.
fn stamp(seed: u8, len: usize) -> Vec<u8> {
    let places = (0..251_u8).cycle();
    places.take(len).map(|place| seed ^ place).collect()
}

proptest! {
    /// Against a list of what is alive: nothing overlaps or changes, the books are exact, a refusal is never wrong.
    #[test]
    fn the_channel_is_a_list_of_ranges(
        granules in 1_usize..200,
        steps in prop::collection::vec((0_u8..8, 0_usize..2000, any::<u8>()), 1..120),
    ) {
        let (_device, channel) = memory(granules * 64);
        let taken = |len: usize| len.max(1).next_multiple_of(64);
        let mut live: Vec<(SegmentMut<Arc<Channel>, Init>, u8)> = Vec::new();
        let (mut peak, mut refused, mut largest, mut freed) = (0, 0, 0, 0);
        for (step, size, seed) in steps {
            if step < 5 {
                let hint = AllocHint(u32::from(seed));
                match SegmentMut::alloc_with(channel.clone(), size, hint) {
                    Ok(segment) => live.push((segment.init_from(&stamp(seed, size)).unwrap(), seed)),
                    Err(error) => {
                        refused += 1;
                        largest = largest.max(size);
                        let in_use: usize = live.iter().map(|(s, _)| taken(s.len())).sum();
                        let capacity = granules * 64;
                        // The gaps between what is alive, in bytes.
                        let mut ranges: Vec<_> = live
                            .iter()
                            .map(|(s, _)| (offset(s, &channel), taken(s.len())))
                            .chain([(capacity, 0)])
                            .collect();
                        ranges.sort_unstable();
                        let (mut end, mut largest_free) = (0, 0);
                        for (start, len) in ranges {
                            prop_assert!(start - end < taken(size), "{} fit at {}", size, end);
                            largest_free = largest_free.max(start - end);
                            end = start + len;
                        }
                        let expected = if size > capacity {
                            AllocError::TooLarge { requested: size, max: capacity }
                        } else {
                            AllocError::OutOfMemory {
                                requested: size,
                                available: capacity - in_use,
                                largest_free,
                                channel: channel.id(),
                                class: hint.class(),
                            }
                        };
                        prop_assert_eq!(error, expected);
                    }
                }
            } else if !live.is_empty() {
                let (segment, seed) = live.swap_remove(size % live.len());
                prop_assert_eq!(bytes(&segment), stamp(seed, segment.len()));
                freed += 1;
            }
            let mut ranges: Vec<_> = live
                .iter()
                .map(|(s, _)| (offset(s, &channel), taken(s.len())))
                .collect();
            ranges.sort_unstable();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{:?}", pair);
            }
            let in_use = ranges.iter().map(|&(_, len)| len).sum();
            peak = peak.max(in_use);
            let ledger = channel.ledger();
            let census = ledger.census;
            prop_assert_eq!((census.in_use, census.peak), (in_use, peak));
            prop_assert_eq!((census.refused, census.largest_refused), (refused, largest));
            prop_assert_eq!((ledger.segments, ledger.frees), (live.len(), freed));
            prop_assert_eq!(ledger.allocations - ledger.frees, live.len() as u64);
        }
        for (segment, seed) in &live {
            prop_assert_eq!(bytes(segment), stamp(*seed, segment.len()));
        }
        live.clear();
        prop_assert_eq!(channel.census().in_use, 0);
        prop_assert_eq!(channel.alloc(granules * 64).map(|whole| whole.len()), Ok(granules * 64));
    }
}

#[test]
fn eight_threads_share_a_channel() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };
    let device = open::<4>();
    let channel = device.channel();
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (channel, start) = (&channel, &start);
            scope.spawn(move || {
                start.wait();
                let mut kept = Vec::new();
                // A generator of our own: reproducible, and different for each thread.
                let mut state = u32::from(thread) + 1;
                for _ in 0..ROUNDS {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (len, seed) = ((state >> 8) as usize % 700, (state >> 24) as u8);
                    if let Ok(segment) = SegmentMut::alloc(channel.clone(), len) {
                        kept.push((segment.init_from(&stamp(seed, len)).unwrap(), seed));
                    }
                    if (kept.len() > 12 || state.is_multiple_of(3))
                        && let Some((segment, seed)) = kept.pop()
                    {
                        assert_eq!(bytes(&segment), stamp(seed, segment.len()));
                    }
                }
                for (segment, seed) in kept {
                    assert_eq!(bytes(&segment), stamp(seed, segment.len()));
                }
            });
        }
    });
    let ledger = channel.ledger();
    assert_eq!((ledger.segments, ledger.census.in_use), (0, 0));
    assert_eq!(ledger.allocations, ledger.frees);
    assert_eq!(
        ledger.allocations + ledger.census.refused as u64,
        8 * ROUNDS as u64
    );
    assert_eq!(ledger.bytes_in, ledger.bytes_out);
    assert_eq!(ledger.largest_free, MEMORY);
}

/// Refers to its first channel, and derefs to the second, as a safe `Deref` may.
struct Fickle(Arc<Channel>, Arc<Channel>);

// SAFETY: the first one, kept by its count.
unsafe impl BackendRef for Fickle {
    type Policy = Blocking;
    type Backend = Channel;
    fn backend(&self) -> &Channel {
        &self.0
    }
}

impl core::ops::Deref for Fickle {
    type Target = Channel;
    fn deref(&self) -> &Channel {
        &self.1
    }
}

#[test]
fn a_tagged_reference_asks_the_backend_that_it_refers_to() {
    let ((_one, first), (_two, second)) = (memory(1024), memory(1024));
    let reference = Fickle(Arc::clone(&first), Arc::clone(&second));
    let tagged = Tagged::new(reference, "fickle", UsageClass::IO);
    assert_eq!(tagged.name(), first.name());
    let segment = SegmentMut::alloc(tagged, 64).unwrap().filled(3).unwrap();
    let place = first.base().checked_add(0).map(Place::Device);
    assert_eq!(Some(segment.place()), place);
    assert_eq!(segment.allocation().channel, first.id());
    let in_use = || [&first, &second].map(|channel| channel.ledger().segments);
    assert_eq!(in_use(), [1, 0]);
    drop(segment);
    assert_eq!(in_use(), [0, 0]);
    assert_eq!((first.ledger().frees, second.ledger().frees), (1, 0));
}
