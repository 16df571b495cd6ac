//! Two channels against two plain lists: places, books by class, live allocations, events and refusals.

use std::sync::Arc;

use proptest::prelude::*;
use wharf_backend::usage::{
    Accounted, Allocation, Tag, Tagged, UsageClass, UsageEvent, UsageEventKind,
};
use wharf_backend::{AllocError, MemBackend, SegmentMut, Uninit};
use wharf_softdma::{Channel, ChannelConfig, Config, SoftDma};

const CAPACITY: [usize; 2] = [64 * 40, 64 * 150];
const NAMES: [&str; 3] = [
    "",
    "conv1.weight",
    "a name that is much too long to be kept, of which the end is",
];

/// What the model knows of one class.
#[derive(Clone, Copy, Default)]
struct Line {
    in_use: usize,
    peak: usize,
    refused: usize,
    largest: usize,
}

#[derive(Default)]
struct Model {
    live: Vec<Allocation>,
    lines: [Line; UsageClass::COUNT],
    total: Line,
    events: Vec<UsageEvent>,
}

fn taken(size: usize) -> usize {
    size.max(1).next_multiple_of(64)
}

impl Line {
    fn take(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
    }

    fn refuse(&mut self, bytes: usize) {
        self.refused += 1;
        self.largest = self.largest.max(bytes);
    }
}

impl Model {
    /// The free ranges, as offsets.
    fn gaps(&self, channel: &Channel) -> Vec<(u64, u64)> {
        let base = channel.base().get();
        let end = base + channel.capacity() as u64;
        let mut ranges: Vec<_> = self
            .live
            .iter()
            .map(|one| (one.address.get(), one.address.get() + one.allocated as u64))
            .chain([(end, end)])
            .collect();
        ranges.sort_unstable();
        let mut free = base;
        let mut gaps = Vec::new();
        for (start, end) in ranges {
            assert!(free <= start, "they overlap");
            gaps.push((free, start));
            free = end;
        }
        gaps
    }

    /// Whether some gap has room for an aligned segment.
    fn fits(&self, channel: &Channel, size: usize, align: u64) -> bool {
        self.gaps(channel)
            .into_iter()
            .any(|(start, end)| start.next_multiple_of(align.max(64)) + taken(size) as u64 <= end)
    }

    fn told(&mut self, kind: UsageEventKind, one: &Allocation) {
        self.events.push(UsageEvent {
            kind,
            class: one.class,
            bytes: one.asked,
            address: (kind != UsageEventKind::Refusal).then_some(one.address),
            tag: one.tag,
        });
    }
}

fn check(channel: &Channel, model: &Model) -> Result<(), TestCaseError> {
    let mut expected = model.live.clone();
    expected.sort_unstable_by_key(|one| one.address);
    let listed: Vec<_> = channel.allocations().expect("room on the heap").collect();
    prop_assert_eq!(listed, expected);
    let usage = channel.usage();
    for class in UsageClass::all() {
        let (census, line) = (usage.class(class), model.lines[usize::from(class.number())]);
        prop_assert_eq!((census.in_use, census.peak), (line.in_use, line.peak));
        prop_assert_eq!(
            (census.refused, census.largest_refused),
            (line.refused, line.largest)
        );
    }
    let (total, line) = (channel.census(), model.total);
    prop_assert_eq!((total.in_use, total.peak), (line.in_use, line.peak));
    prop_assert_eq!(
        (total.refused, total.largest_refused),
        (line.refused, line.largest)
    );
    let longest = model
        .gaps(channel)
        .into_iter()
        .map(|(start, end)| end - start)
        .max();
    prop_assert_eq!(Some(channel.largest_free() as u64), longest);
    prop_assert_eq!(channel.recorded(), model.events.len() as u64);
    let kept = channel.ledger().events_dropped;
    for number in kept..channel.recorded() {
        let at = usize::try_from(number).expect("few events");
        prop_assert_eq!(channel.event(number), Some(model.events[at]));
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_books_are_what_was_done(
        steps in prop::collection::vec(
            (0_u8..10, 0_usize..2, 0_usize..3000, 0_u8..32, 0_u32..14, 0_usize..3),
            1..100,
        ),
    ) {
        let config = Config::new(CAPACITY[0]).with(ChannelConfig::new(CAPACITY[1]));
        let device = SoftDma::<()>::open(config).unwrap();
        let channels = device.channels();
        let mut models = [Model::default(), Model::default()];
        type Live = SegmentMut<Tagged<Arc<Channel>>, Uninit>;
        let mut live: Vec<(usize, Live)> = Vec::new();
        for (step, which, size, number, power, name) in steps {
            if step >= 6 {
                if !live.is_empty() {
                    let (which, segment) = live.swap_remove(size % live.len());
                    let gone = segment.allocation();
                    drop(segment);
                    let model = &mut models[which];
                    model.live.retain(|one| one.address != gone.address);
                    model.lines[usize::from(gone.class.number())].in_use -= gone.allocated;
                    model.total.in_use -= gone.allocated;
                    model.told(UsageEventKind::Free, &gone);
                }
            } else {
                let (channel, model) = (&channels[which], &mut models[which]);
                let class = UsageClass::from_number(number).unwrap();
                let (align, tag) = (1 << power, Tag::new(NAMES[name]));
                let reference = channel.tagged(tag, class).aligned(align).unwrap();
                let mut one = Allocation {
                    channel: channel.id(),
                    address: channel.base(),
                    asked: size,
                    allocated: taken(size),
                    align_offset: 0,
                    class,
                    tag,
                };
                let line = &mut model.lines[usize::from(number)];
                match SegmentMut::alloc(reference, size) {
                    Ok(segment) => {
                        let found = segment.allocation();
                        one.address = found.address;
                        prop_assert_eq!(found, one);
                        prop_assert!(one.address.get().is_multiple_of(align.max(64)));
                        prop_assert_eq!(channel.allocation_at(one.address), Some(one));
                        line.take(one.allocated);
                        model.total.take(one.allocated);
                        prop_assert!(model.fits(channel, size, align), "it was not free");
                        model.live.push(one);
                        model.told(UsageEventKind::Alloc, &one);
                        live.push((which, segment));
                    }
                    Err(error) => {
                        line.refuse(size);
                        model.total.refuse(size);
                        prop_assert!(!model.fits(channel, size, align), "{}", error);
                        let max = channel.capacity();
                        let expected = if size > max {
                            AllocError::TooLarge { requested: size, max }
                        } else {
                            AllocError::OutOfMemory {
                                requested: size,
                                available: max - model.total.in_use,
                                largest_free: channel.largest_free(),
                                channel: channel.id(),
                                class,
                            }
                        };
                        prop_assert_eq!(error, expected);
                        model.told(UsageEventKind::Refusal, &one);
                        let tag = *device.explain(error).tag();
                        let names = matches!(error, AllocError::OutOfMemory { .. });
                        prop_assert_eq!(tag, if names { one.tag } else { Tag::NONE });
                    }
                }
            }
            for (channel, model) in channels.iter().zip(&models) {
                check(channel, model)?;
            }
        }
        live.clear();
        for channel in channels {
            prop_assert_eq!(channel.largest_free(), channel.capacity());
            prop_assert_eq!(channel.census().in_use, 0);
        }
    }
}
