//! Bytes are moved: nothing of it allocates, but the halves of a buffer that two engines share.

use std::time::Duration;

use super::bench::{Bench, FIRST, Swept, Took, ready};
use super::{Row, nothing};
use wharf_tensor::{Access, CopyError, CopyFault, Tensor, TensorError};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(3600);

/// What a copy through a buffer was refused: before anything moved.
fn of_copy(refused: CopyError) -> TensorError {
    assert_eq!((refused.done, refused.len), (0, 8));
    match refused.cause {
        CopyFault::Tensor(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A destination, of host memory, and a buffer.
fn ends(bench: &Bench) -> Result<[Tensor<Swept>; 2], TensorError> {
    let destination = Tensor::alloc(&bench.target, bench.host.clone(), 8)?;
    Ok([
        destination,
        Tensor::alloc(&bench.target, bench.host.clone(), 4)?,
    ])
}

/// After a copy through `buffer`, or after one that was refused: the buffer is whole.
fn is_whole(buffer: &Tensor<Swept>) {
    buffer.try_fill(9).unwrap();
    assert_eq!(*buffer.try_lend().unwrap(), [9; 4]);
}

pub(super) const ROWS: &[Row] = &[
    Row {
        title: "copy_through",
        through: &["relay::copy_through"],
        segments: [2, 0],
        blocks: &[Took::Control; 4],
        run: |bench| {
            let [destination, buffer] = ends(bench)?;
            let [reader, writer] = &bench.engines;
            let copied = destination.copy_through(&bench.first, &buffer, reader, writer);
            is_whole(&buffer);
            let done = if copied.is_ok() { FIRST } else { [0; 8] };
            assert_eq!(*destination.try_lend()?, done);
            copied.map_err(of_copy)
        },
    },
    Row {
        title: "copy_through_when_ready",
        through: &["relay::awaited::copy_through_when_ready"],
        segments: [2, 0],
        blocks: &[Took::Control; 4],
        run: |bench| {
            let [destination, buffer] = ends(bench)?;
            let [reader, writer] = &bench.engines;
            let copied = destination.copy_through_when_ready(&bench.first, &buffer, reader, writer);
            let copied = ready(copied);
            is_whole(&buffer);
            let done = if copied.is_ok() { FIRST } else { [0; 8] };
            assert_eq!(*destination.try_lend()?, done);
            copied.map_err(of_copy)
        },
    },
    nothing(
        "read, write, fill",
        &[
            "io::read",
            "io::try_read",
            "io::write",
            "io::try_write",
            "io::fill",
            "io::try_fill",
            "within::read",
            "within::write",
            "within::fill",
            "ready::read",
            "ready::write",
            "ready::fill",
        ],
        |bench| {
            let mut bytes = [0; 2];
            for tensor in [&bench.first, &bench.second] {
                tensor.fill(1)?;
                tensor.try_fill(2)?;
                tensor.within(LONG).fill(3)?;
                ready(tensor.when_ready().fill(4))?;
                tensor.write(1, &[5])?;
                tensor.try_write(2, &[6])?;
                tensor.within(LONG).write(3, &[7])?;
                ready(tensor.when_ready().write(4, &[8]))?;
                tensor.read(0, &mut bytes)?;
                assert_eq!(bytes, [4, 5]);
                tensor.try_read(1, &mut bytes)?;
                assert_eq!(bytes, [5, 6]);
                tensor.within(LONG).read(2, &mut bytes)?;
                assert_eq!(bytes, [6, 7]);
                ready(tensor.when_ready().read(3, &mut bytes))?;
                assert_eq!(bytes, [7, 8]);
            }
            Ok(())
        },
    ),
    nothing(
        "past the fence",
        &[
            "unfenced::read_unfenced",
            "unfenced::write_unfenced",
            "unfenced::fill_unfenced",
            "unfenced::read_batch_unfenced",
            "unfenced::write_batch_unfenced",
        ],
        |bench| {
            let mut bytes = [0; 3];
            for tensor in [&bench.first, &bench.second] {
                // SAFETY: nobody else has access.
                unsafe {
                    tensor.fill_unfenced(1)?;
                    tensor.write_unfenced(1, &[2])?;
                    Tensor::write_batch_unfenced(&[tensor.write_op(2, &[3])]).unwrap();
                    tensor.read_unfenced(0, &mut bytes)?;
                    assert_eq!(bytes, [1, 2, 3]);
                    Tensor::read_batch_unfenced(&mut [tensor.read_op(1, &mut bytes)]).unwrap();
                    assert_eq!(bytes, [2, 3, 1]);
                }
            }
            Ok(())
        },
    ),
    nothing(
        "copies in all pairings",
        &[
            "copy::copy_from",
            "copy::try_copy_from",
            "within::copy_from",
            "ready::copy_from",
        ],
        |bench| {
            let (host, device) = (&bench.first, &bench.second);
            let mut bytes = [0; 8];
            // Between the spaces, from what is read-only, from and to what has no bytes.
            device.copy_from(host)?;
            device.try_read(0, &mut bytes)?;
            assert_eq!(bytes, FIRST);
            host.try_copy_from(&bench.rom)?;
            host.within(LONG).copy_from(device)?;
            ready(bench.placeholder.when_ready().copy_from(host))?;
            host.copy_from(&bench.placeholder)?;
            host.try_read(0, &mut bytes)?;
            assert_eq!(bytes, FIRST);
            // In one storage, overlapping.
            for tensor in [host, device] {
                tensor.slice(2..)?.copy_from(&tensor.slice(..6)?)?;
                tensor.try_read(0, &mut bytes)?;
                assert_eq!(bytes, [1, 2, 1, 2, 3, 4, 5, 6]);
            }
            Ok(())
        },
    ),
    nothing(
        "batches",
        &[
            "batch::read_batch",
            "batch::try_read_batch",
            "batch::read_batch_within",
            "batch::read_batch_when_ready",
            "batch::write_batch",
            "batch::try_write_batch",
            "batch::write_batch_within",
            "batch::write_batch_when_ready",
        ],
        |bench| {
            let (host, device) = (&bench.first, &bench.second);
            let mut bytes = [[0; 2]; 2];
            for n in 0..4 {
                let (one, other) = ([n, n + 1], [n + 2, n + 3]);
                let ops = [
                    host.write_op(1, &one),
                    device.write_op(6, &other),
                    bench.placeholder.write_op(0, &one),
                ];
                match n {
                    0 => Tensor::write_batch(&ops),
                    1 => Tensor::try_write_batch(&ops),
                    2 => Tensor::write_batch_within(LONG, &ops),
                    _ => ready(Tensor::write_batch_when_ready(&ops)),
                }
                .unwrap();
                let [first, second] = &mut bytes;
                let mut ops = [device.read_op(6, first), host.read_op(1, second)];
                match n {
                    0 => Tensor::read_batch(&mut ops),
                    1 => Tensor::try_read_batch(&mut ops),
                    2 => Tensor::read_batch_within(LONG, &mut ops),
                    _ => ready(Tensor::read_batch_when_ready(&mut ops)),
                }
                .unwrap();
                assert_eq!(bytes, [other, one]);
            }
            Ok(())
        },
    ),
    nothing(
        "guards",
        &[
            "guard::lend",
            "guard::try_lend",
            "guard::lend_mut",
            "guard::try_lend_mut",
            "within::lend",
            "within::lend_mut",
            "ready::lend",
            "ready::lend_mut",
        ],
        |bench| {
            let tensor = &bench.first;
            tensor.lend_mut()?[0] = 21;
            tensor.try_lend_mut()?[1] = 22;
            tensor.within(LONG).lend_mut()?[2] = 23;
            ready(tensor.when_ready().lend_mut())?[3] = 24;
            let guards = [
                tensor.lend()?,
                tensor.try_lend()?,
                tensor.within(LONG).lend()?,
                ready(tensor.when_ready().lend())?,
            ];
            for guard in &guards {
                assert_eq!(guard[..5], [21, 22, 23, 24, 5]);
            }
            Ok(())
        },
    ),
    nothing(
        "accesses by hand",
        &[
            "tensor::begin",
            "tensor::try_begin",
            "within::begin",
            "ready::begin",
            "ticket::place",
            "ticket::storage_id",
        ],
        |bench| {
            let (tensor, stream) = (&bench.second, bench.stream.id());
            let tickets = [
                tensor.begin(Access::Read, stream)?,
                tensor.try_begin(Access::Write, stream)?,
                tensor.within(LONG).begin(Access::Read, stream)?,
                ready(tensor.when_ready().begin(Access::Read, stream))?,
            ];
            assert_eq!(tensor.in_flight(), (3, 1));
            for ticket in &tickets {
                assert_eq!(ticket.place(), tensor.place());
                assert_eq!(Some(ticket.storage_id()), tensor.storage_id());
            }
            Ok(())
        },
    ),
];
