//! Storages and names come and go.

use std::sync::Arc;

use super::bench::{Bench, FIRST, Name, ROM, Swept, Took};
use super::{Row, nothing};
use wharf_backend::{BorrowedBackend, MemSpace, ReadOnly, SegmentMut, SharedBytes};
use wharf_sync::Blocking;
use wharf_tensor::{Access, Tensor, TensorError};

const STATIC: Took = Took::Named(Name::Static);
const FIVE: Took = Took::Named(Name::Copied(5));

type Rom = Arc<BorrowedBackend<SharedBytes<'static>, Blocking>>;

fn rom() -> SegmentMut<Rom, ReadOnly> {
    let rom = BorrowedBackend::<_, Blocking>::fresh(SharedBytes::new(&ROM));
    BorrowedBackend::lend_by(Arc::new(rom)).unwrap()
}

/// Three bytes of the program.
fn abc(bench: &Bench) -> SegmentMut<Arc<wharf_backend::Heap<Blocking>>> {
    let segment = SegmentMut::alloc(bench.heap.clone(), 3).unwrap();
    segment.init_from(b"abc").unwrap()
}

fn sees(tensor: &Tensor<Swept>, expected: &[u8]) {
    let mut bytes = vec![0; tensor.len()];
    tensor.try_read(0, &mut bytes).unwrap();
    assert_eq!(bytes, expected);
}

pub(super) const ROWS: &[Row] = &[
    Row {
        title: "alloc on the host",
        through: &["tensor::alloc"],
        segments: [1, 0],
        blocks: &[Took::Control],
        run: |bench| {
            let tensor = Tensor::alloc(&bench.target, bench.host.clone(), 5)?;
            sees(&tensor, &[0; 5]);
            Ok(())
        },
    },
    Row {
        title: "alloc on a device",
        through: &["tensor::alloc"],
        segments: [0, 1],
        blocks: &[Took::Control],
        run: |bench| {
            let tensor = Tensor::alloc(&bench.target, bench.device.clone(), 5)?;
            tensor.fill(3)?;
            sees(&tensor, &[3; 5]);
            Ok(())
        },
    },
    Row {
        title: "alloc_named",
        through: &["name::alloc_named", "name::name"],
        segments: [1, 0],
        blocks: &[Took::Control, FIVE],
        run: |bench| {
            let named = Tensor::alloc_named(&bench.target, bench.host.clone(), 4, "third");
            let tensor = named.map_err(|refused| {
                assert_eq!(refused.name, "third");
                refused.error
            })?;
            assert_eq!(tensor.name(), Some("third"));
            assert_eq!(bench.names.iter().count(), 3);
            Ok(())
        },
    },
    Row {
        title: "named",
        through: &["name::named"],
        segments: [0, 0],
        blocks: &[FIVE],
        run: |bench| {
            let slice = bench.first.slice(2..6)?;
            match slice.named(&bench.target, "inner") {
                Ok(named) => assert_eq!(named.name(), Some("inner")),
                Err(refused) => {
                    let slice = refused.value;
                    assert_eq!((slice.name(), slice.offset(), slice.len()), (None, 2, 4));
                    sees(&slice, &FIRST[2..6]);
                    return Err(refused.error);
                }
            }
            Ok(())
        },
    },
    Row {
        title: "named, instead of the name it has",
        through: &["name::named", "name::named_static"],
        segments: [0, 0],
        blocks: &[STATIC, Took::Named(Name::Copied(9))],
        run: |bench| {
            let clone = bench.first.clone();
            let renamed = clone
                .named_static(&bench.target, "again")
                .map_err(|refused| {
                    assert_eq!(refused.value.name(), Some("first"));
                    assert_eq!(refused.value.completions().unwrap().count(), 1);
                    refused.error
                })?;
            assert_eq!(renamed.completions().unwrap().count(), 0);
            let renamed = renamed
                .named(&bench.target, "and again")
                .map_err(|refused| {
                    assert_eq!(refused.value.name(), Some("again"));
                    refused.error
                })?;
            assert_eq!(
                (bench.first.name(), renamed.name()),
                (Some("first"), Some("and again"))
            );
            Ok(())
        },
    },
    Row {
        title: "an entry of the directory outlives its tensor",
        through: &["directory::find"],
        segments: [1, 0],
        blocks: &[Took::Control, FIVE],
        run: |bench| {
            let tensor = Tensor::alloc(&bench.target, bench.host.clone(), 4)?;
            let tensor = tensor
                .named(&bench.target, "entry")
                .map_err(|refused| refused.error)?;
            let entry = bench
                .names
                .find(tensor.storage_id().unwrap())
                .next()
                .unwrap();
            assert_eq!(entry.holders(), 1);
            drop(tensor);
            // The name is kept, the memory not.
            assert_eq!(entry.name(), "entry");
            assert_eq!((bench.names.iter().count(), bench.blocks_out()), (2, 7));
            Ok(())
        },
    },
    Row {
        title: "named and split around a device access",
        through: &["name::named", "lifecycle::attach", "lifecycle::split"],
        segments: [0, 0],
        blocks: &[FIVE],
        run: |bench| {
            let reads = bench.first.begin(Access::Read, bench.stream.id())?;
            let named = bench.first.slice(..3)?.named(&bench.target, "inner");
            // The access goes on, whether that is refused or not.
            assert_eq!(bench.first.in_flight(), (1, 0));
            assert!(bench.first.try_fill(0).is_err());
            if let Ok(named) = &named {
                let entry = bench.names.find(reads.storage_id()).last().unwrap();
                assert_eq!((entry.name(), entry.in_flight()), ("inner", (1, 0)));
                // What is in the way of these is told before anything is asked for.
                assert!(matches!(
                    named.split(1),
                    Err(TensorError::InFlight { .. } | TensorError::WouldBlock { .. })
                ));
                let refused = named.clone().attach(&bench.target, abc(bench)).unwrap_err();
                assert!(matches!(
                    refused.error,
                    TensorError::InFlight {
                        reads: 1,
                        writes: 0,
                        ..
                    }
                ));
            }
            drop(reads);
            named.map(drop).map_err(|refused| refused.error)
        },
    },
    Row {
        title: "placeholder",
        through: &["lifecycle::placeholder"],
        segments: [0, 0],
        blocks: &[Took::Control],
        run: |bench| {
            Tensor::placeholder(&bench.target, 1 << 40)?
                .slice(1 << 39..)
                .map(drop)
        },
    },
    Row {
        title: "from_segment and back",
        through: &["tensor::from_segment", "lifecycle::into_segment"],
        segments: [0, 0],
        blocks: &[Took::Control],
        run: |bench| match Tensor::from_segment(&bench.target, abc(bench)) {
            Ok(tensor) => {
                sees(&tensor, b"abc");
                let segment = tensor.into_segment().map_err(|refused| refused.error)?;
                assert_eq!(segment.host().unwrap(), b"abc");
                Ok(())
            }
            Err(refused) => {
                assert_eq!(refused.value.host().unwrap(), b"abc");
                Err(refused.error)
            }
        },
    },
    Row {
        title: "from_segment of read-only memory and back",
        through: &["tensor::from_segment", "lifecycle::into_read_only_segment"],
        segments: [0, 0],
        blocks: &[Took::Control],
        run: |bench| match Tensor::from_segment(&bench.target, rom()) {
            Ok(tensor) => {
                sees(&tensor, &ROM);
                let segment = tensor
                    .into_read_only_segment()
                    .map_err(|refused| refused.error)?;
                assert_eq!(segment.len(), 8);
                Ok(())
            }
            Err(refused) => {
                assert_eq!(refused.value.len(), 8);
                Err(refused.error)
            }
        },
    },
    Row {
        title: "attach",
        through: &["lifecycle::attach"],
        segments: [0, 0],
        blocks: &[Took::Control, Took::Control],
        run: |bench| {
            let mut handle = bench.first.clone();
            let unchanged = |handle: &Tensor<Swept>| {
                assert_eq!(handle.storage_id(), bench.first.storage_id());
                assert_eq!(handle.name(), Some("first"));
                sees(handle, &FIRST);
            };
            if let Err(refused) = handle.attach(&bench.target, abc(bench)) {
                unchanged(&handle);
                assert_eq!(refused.value.host().unwrap(), b"abc");
                return Err(refused.error);
            }
            sees(&handle, b"abc");
            assert_eq!(handle.name(), None);
            if let Err(refused) = handle.attach(&bench.target, rom()) {
                sees(&handle, b"abc");
                assert_eq!(refused.value.len(), 8);
                return Err(refused.error);
            }
            sees(&handle, &ROM);
            unchanged(&bench.first);
            Ok(())
        },
    },
    Row {
        title: "split, and a part of it again",
        through: &["lifecycle::split"],
        segments: [0, 0],
        blocks: &[Took::Control; 4],
        run: |bench| {
            let (left, right) = bench.first.split(4)?;
            let inner = right.split(1);
            if inner.is_err() {
                // The part is whole again, and both serve.
                right.try_write(0, &[5, 6])?;
                sees(&left, &[1, 2, 3, 4]);
            }
            let (second, third) = inner?;
            third.try_write(0, &[6, 7, 8])?;
            sees(&second, &[5]);
            assert!(matches!(
                right.try_lend().map(drop),
                Err(TensorError::Split { .. })
            ));
            drop((second, third));
            sees(&right, &[5, 6, 7, 8]);
            Ok(())
        },
    },
    Row {
        title: "split on a device, and of what has no bytes",
        through: &["lifecycle::split"],
        segments: [0, 0],
        blocks: &[Took::Control; 4],
        run: |bench| {
            let (left, right) = bench.second.split(3)?;
            sees(&left, &[11, 12, 13]);
            sees(&right, &[14, 15, 16, 17, 18]);
            bench.placeholder.split(8).map(drop)
        },
    },
    Row {
        title: "split of read-only memory",
        through: &["lifecycle::split"],
        segments: [0, 0],
        blocks: &[Took::Control; 2],
        run: |bench| {
            let (left, right) = bench.rom.split(2)?;
            sees(&left, b"in");
            sees(&right, b" flash");
            Ok(())
        },
    },
    nothing(
        "slices, clones, empty ones, and what is refused before anything is asked for",
        &[
            "tensor::slice",
            "lifecycle::split",
            "name::named_static",
            "lifecycle::into_segment",
        ],
        |bench| {
            let slices: Vec<_> = (0..8).map(|at| bench.first.slice(at..)).collect();
            sees(slices[6].as_ref().unwrap(), &[7, 8]);
            let clone = bench.second.clone();
            assert_eq!(clone.name(), Some("second"));
            assert!(bench.first.split(9).is_err());
            assert!(Tensor::<Swept>::empty().split(0).is_err());
            let anonymous = Tensor::empty().named_static(&bench.target, "none");
            assert_eq!(anonymous.unwrap_err().error, TensorError::NoStorage);
            let held = clone.into_segment().unwrap_err();
            assert!(matches!(held.error, TensorError::Held { others: 1, .. }));
            Ok(())
        },
    ),
    nothing(
        "what is known of a tensor",
        &[
            "tensor::storage_id",
            "tensor::space",
            "tensor::is_read_only",
            "tensor::in_flight",
            "tensor::place",
            "placement::placement",
            "placement::alignment_offset",
            "placement::host_ptr",
            "placement::device_address",
        ],
        |bench| {
            let (host, device) = (&bench.first.slice(3..)?, &bench.second);
            assert_eq!(host.storage_id(), bench.first.storage_id());
            assert_eq!(device.space(), Some(MemSpace::Device));
            assert!(bench.rom.is_read_only() && !host.is_read_only());
            assert_eq!(host.in_flight(), (0, 0));
            let placement = host.placement()?;
            assert_eq!(placement.segment_offset, 3);
            assert_eq!(placement.alignment_offset(), 3 % placement.alignment);
            assert_eq!(
                (Some(placement.place), host.host_ptr().is_ok()),
                (host.place(), true)
            );
            assert!(device.device_address()?.get() > 0);
            Ok(())
        },
    ),
    nothing(
        "the directory",
        &[
            "directory::fresh",
            "directory::bytes",
            "directory::completions",
        ],
        |bench| {
            let fresh = wharf_tensor::Directory::<Blocking, super::bench::Source>::fresh();
            assert_eq!((fresh.bytes(), bench.names.bytes()), (0, 16));
            let first = bench.names.iter().next().unwrap();
            assert_eq!(first.completions(), 1);
            let error = bench.rom.fill(0).unwrap_err();
            let refused = bench.first.split(9).unwrap_err();
            assert!(bench.names.explain(error).to_string().contains("storage"));
            assert!(!bench.names.explain(refused).to_string().is_empty());
            Ok(())
        },
    ),
    nothing(
        "the trace",
        &[
            "trace::ring::new",
            "trace::ring::with_clock",
            "trace::ring::len",
            "trace::ring::is_empty",
            "trace::ring::recorded",
            "trace::ring::dropped",
            "trace::ring::pop",
            "trace::ring::drain",
        ],
        |bench| {
            let ring = wharf_tensor::TraceRing::<Blocking, 4>::new();
            assert!(ring.is_empty() && ring.pop().is_none());
            let _clocked =
                wharf_tensor::TraceRing::<Blocking, 4, _>::with_clock(wharf_sync::NoClock);
            bench.ring.drain().for_each(drop);
            let before = (bench.ring.recorded(), bench.ring.dropped());
            for _ in 0..100 {
                bench.first.write(0, &FIRST)?;
            }
            // More than it has room for.
            assert_eq!(bench.ring.len(), 64);
            assert_eq!(
                bench.ring.recorded() - before.0,
                64 + bench.ring.dropped() - before.1
            );
            Ok(())
        },
    ),
];
