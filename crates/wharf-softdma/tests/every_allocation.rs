//! Everything that takes memory of the device, a row each: the segments that a run takes are counted, and then each of them is
//! refused in turn, and each block of the tensors on them. After each refusal the books of both channels, the live segments, the blocks and
//! the tensors are what they were before. And what was there serves on.
//!
//! A row that takes nothing runs while the next segment and every block is refused: launches, copies, and looking into the books. (The
//! list that [`Channel::allocations`] makes, the queue and the worker take from the heap of the host, which cannot be made to
//! fail here.)

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_backend::usage::{Allocation, Tagged, UsageClass};
use wharf_backend::{AllocError, BackendExt, Group, GroupError, SegmentMut};
use wharf_engine::Command;
use wharf_softdma::{Channel, ChannelConfig, Config, SoftDma};
use wharf_source::{BlockSource, FaultSource, HeapSource, SourceError};
use wharf_sync::Blocking;
use wharf_tensor::{CopyFault, Launch, Parts, Tensor, TensorError, Tickets};

type Source = Arc<FaultSource<Counted, Blocking>>;
type Target = Parts<Tagged<Arc<Channel>>, Source>;

/// The heap, and the bytes that are out.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

// SAFETY: every block is one of the heap's, and goes back to it.
unsafe impl BlockSource for Counted {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.fetch_add(layout.size(), Ordering::Relaxed);
        HeapSource.try_alloc(layout)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        self.0.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { HeapSource.release(block, layout) }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        HeapSource.refusal(layout)
    }
    fn name(&self) -> &'static str {
        "counted"
    }
}

struct Bench {
    device: SoftDma<Tickets<Target>>,
    source: Source,
    target: Target,
    /// On the first channel and on the second.
    tensors: [Tensor<Target>; 2],
}

/// What neither a refusal nor an operation changes that has let go of what it got.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Of each channel: what lives, bytes taken, the largest gap, segments.
    books: [(Vec<Allocation>, usize, usize, usize); 2],
    /// Bytes by class.
    classes: [[usize; 2]; 2],
    blocks: usize,
    in_flight: [(u32, u32); 2],
    in_use: usize,
    bytes: [[u8; 4]; 2],
}

impl Bench {
    fn new() -> Self {
        let channel = ChannelConfig::new(1 << 12);
        let device = SoftDma::open(Config::of(channel).with(channel)).unwrap();
        let source = Source::new(FaultSource::new(Counted::default()));
        let target = Target::new(source.clone());
        let tensors = [(0, b"zero"), (1, b"one.")].map(|(channel, bytes)| {
            let memory = device.channels()[channel].tagged("there before", UsageClass::WEIGHT);
            let tensor = Tensor::alloc(&target, memory, 4).unwrap();
            tensor.write(0, bytes).unwrap();
            tensor
        });
        Self {
            device,
            source,
            target,
            tensors,
        }
    }

    /// A reference to a channel.
    fn memory(&self, channel: usize) -> Tagged<Arc<Channel>> {
        self.device.channels()[channel].tagged("swept", UsageClass::RING)
    }

    fn state(&self) -> State {
        let channels = [0, 1].map(|index| &self.device.channels()[index]);
        State {
            books: channels.map(|channel| {
                let ledger = channel.ledger();
                let live = channel.allocations().unwrap().collect();
                let taken = ledger.census.in_use;
                (live, taken, ledger.largest_free, ledger.segments)
            }),
            classes: channels.map(|channel| {
                let usage = channel.ledger().usage;
                [UsageClass::WEIGHT, UsageClass::RING].map(|class| usage.class(class).in_use)
            }),
            blocks: self.source.inner().0.load(Ordering::Relaxed),
            in_flight: self.tensors.each_ref().map(Tensor::in_flight),
            in_use: self.device.in_use(),
            bytes: self.tensors.each_ref().map(|tensor| {
                let mut bytes = [0; 4];
                tensor.try_read(0, &mut bytes).unwrap();
                bytes
            }),
        }
    }

    /// Segments that were vended, ever.
    fn vended(&self) -> u64 {
        let channels = self.device.channels().iter();
        channels.map(|channel| channel.ledger().allocations).sum()
    }

    /// What was there before is written and read, by the host and by the device.
    fn serves(&self) {
        let [first, second] = &self.tensors;
        first.try_write(1, b"i").unwrap();
        let copy = [first.input(), second.output()];
        let copied = self.device.launch(Command::Copy, &copy).unwrap();
        copied.wait().unwrap();
        let mut bytes = [0; 4];
        second.try_read(0, &mut bytes).unwrap();
        assert_eq!(bytes, *b"ziro");
        first.try_write(1, b"e").unwrap();
        second.try_write(0, b"one.").unwrap();
    }
}

struct Row {
    title: &'static str,
    segments: u64,
    /// Control blocks.
    blocks: u64,
    run: fn(&Bench) -> Result<(), AllocError>,
}

fn of_tensor(error: TensorError) -> AllocError {
    match error {
        TensorError::Alloc(error) => error,
        other => panic!("{other}"),
    }
}

const ROWS: &[Row] = &[
    Row {
        title: "segments, tagged and aligned, on both channels",
        segments: 3,
        blocks: 0,
        run: |bench| {
            let first = SegmentMut::alloc(bench.memory(0), 100)?;
            let _aligned = SegmentMut::alloc(bench.memory(1).aligned(1024).unwrap(), 1)?;
            let third = SegmentMut::alloc(bench.device.channel(), 65)?;
            assert_eq!((first.len(), third.len()), (100, 65));
            assert_eq!(bench.state().classes, [[64, 128], [64, 64]]);
            Ok(())
        },
    },
    Row {
        title: "a group",
        segments: 4,
        // The list.
        blocks: 1,
        run: |bench| {
            let mut group = Group::new(bench.memory(0), bench.source.clone());
            for size in [1, 2, 3] {
                let (members, bytes) = (group.len(), group.bytes());
                group.alloc(size).map_err(|refused| {
                    assert_eq!((group.len(), group.bytes()), (members, bytes));
                    match refused {
                        GroupError::Alloc(error) => error,
                        other => panic!("{other}"),
                    }
                })?;
            }
            let other = SegmentMut::alloc(bench.memory(1), 4)?
                .initialised()
                .unwrap();
            group.adopt(other).unwrap();
            assert_eq!((group.len(), group.bytes()), (4, 10));
            Ok(())
        },
    },
    Row {
        title: "a segment that no list has room for",
        segments: 1,
        blocks: 1,
        run: |bench| {
            let mut group = Group::new(bench.memory(0), bench.source.clone());
            let segment = SegmentMut::alloc(bench.memory(1), 9)?
                .initialised()
                .unwrap();
            group.adopt(segment).map(drop).map_err(|refused| {
                assert_eq!((refused.value.len(), group.len()), (9, 0));
                refused.error.into()
            })
        },
    },
    Row {
        title: "tensors and their parts",
        segments: 2,
        blocks: 4,
        run: |bench| {
            let first = Tensor::alloc(&bench.target, bench.memory(0), 8).map_err(of_tensor)?;
            let second = Tensor::alloc(&bench.target, bench.memory(1), 8).map_err(of_tensor)?;
            first.fill(7).unwrap();
            let parts = first.split(4);
            if parts.is_err() {
                first.try_fill(8).unwrap();
            }
            let (left, right) = parts.map_err(of_tensor)?;
            let halves = second.slice(4..).unwrap();
            halves.copy_from(&right).unwrap();
            assert_eq!(left.allocation().unwrap().asked, 8);
            assert_eq!(second.allocation().unwrap().class, UsageClass::RING);
            Ok(())
        },
    },
    Row {
        title: "a copy through a buffer",
        segments: 1,
        blocks: 3,
        run: |bench| {
            let buffer = Tensor::alloc(&bench.target, bench.memory(0), 2).map_err(of_tensor)?;
            let ([from, to], device) = (&bench.tensors, &bench.device);
            let copied = to.copy_through(from, &buffer, device, device);
            buffer.try_fill(0).unwrap();
            if let Err(refused) = copied {
                assert_eq!((refused.done, refused.len), (0, 4));
                match refused.cause {
                    CopyFault::Tensor(error) => return Err(of_tensor(error)),
                    other => panic!("{other}"),
                }
            }
            let mut bytes = [0; 4];
            to.try_read(0, &mut bytes).unwrap();
            assert_eq!(bytes, *b"zero");
            to.try_write(0, b"one.").unwrap();
            Ok(())
        },
    },
    Row {
        title: "launches, copies and batches",
        segments: 0,
        blocks: 0,
        run: |bench| {
            let [first, second] = &bench.tensors;
            bench.serves();
            second.copy_from(first).unwrap();
            let mut bytes = [[0; 2]; 2];
            let [one, other] = &mut bytes;
            Tensor::read_batch(&mut [first.read_op(0, one), second.read_op(2, other)]).unwrap();
            assert_eq!(bytes, [*b"ze", *b"ro"]);
            Tensor::write_batch(&[second.write_op(0, b"on"), second.write_op(2, b"e.")]).unwrap();
            Ok(())
        },
    },
    Row {
        title: "the books",
        segments: 0,
        blocks: 0,
        run: |bench| {
            let channel = bench.device.channel();
            let address = bench.tensors[0].device_address().unwrap();
            let there = channel.allocation_at(address).unwrap();
            assert_eq!(there, bench.tensors[0].allocation().unwrap());
            assert!(channel.allocations().unwrap().eq([there]));
            // More than there is: no request of those that are counted.
            let refused = channel.alloc(1 << 20).map(drop).unwrap_err();
            assert!(bench.device.explain(refused).to_string().contains("weight"));
            Ok(())
        },
    },
];

#[test]
fn every_allocation_may_be_refused() {
    let block = Tensor::<Target>::CONTROL_BLOCK.size();
    for row in ROWS {
        let bench = Bench::new();
        let before = bench.state();
        let good = |what: &str| {
            let (vended, at) = (bench.vended(), format!("{}: {what}", row.title));
            bench.source.fail_nth(0);
            (row.run)(&bench).expect(&at);
            assert_eq!(bench.vended() - vended, row.segments, "{at}");
            assert_eq!(bench.source.calls(), row.blocks, "{at}");
            assert_eq!(bench.state(), before, "{at}");
        };
        good("a first time");
        for nth in 1..=row.segments {
            bench.device.faults().fail_alloc(nth);
            let refused = (row.run)(&bench).expect_err(row.title);
            let at = format!("{}: segment {nth}", row.title);
            assert_eq!(refused, AllocError::Injected { call: nth }, "{at}");
            assert_eq!(bench.state(), before, "{at}");
            bench.serves();
            good(&at);
        }
        for nth in 1..=row.blocks {
            bench.source.fail_nth(nth);
            let refused = (row.run)(&bench).expect_err(row.title);
            let at = format!("{}: block {nth}", row.title);
            match refused {
                AllocError::Source(SourceError::Injected { requested, call }) => {
                    let list = row.title.contains("group") || row.title.contains("list");
                    assert!(
                        call == nth && (list || requested == block),
                        "{at}: {refused:?}"
                    );
                }
                other => panic!("{at}: {other:?}"),
            }
            assert_eq!(bench.state(), before, "{at}");
            bench.serves();
            good(&at);
        }
        // One more there is not: a row that takes nothing runs while everything is refused.
        bench.device.faults().fail_alloc(row.segments + 1);
        if row.blocks == 0 {
            bench.source.fail_every(1);
        } else {
            bench.source.fail_nth(row.blocks + 1);
        }
        (row.run)(&bench).expect(row.title);
        assert!(bench.device.faults().are_due(), "{}", row.title);
        assert_eq!(bench.state(), before, "{}", row.title);
        let Bench {
            device,
            source,
            tensors,
            ..
        } = bench;
        drop(tensors);
        assert_eq!(source.inner().0.load(Ordering::Relaxed), 0, "{}", row.title);
        for channel in device.channels() {
            let ledger = channel.ledger();
            assert_eq!((ledger.segments, ledger.census.in_use), (0, 0));
            assert_eq!(
                (ledger.allocations, ledger.largest_free),
                (ledger.frees, 1 << 12)
            );
        }
    }
}
