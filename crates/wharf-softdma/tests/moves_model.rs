//! Copies, batches and faults between two segments of one channel, one of another and one of the host, against plain lists of bytes.

use std::sync::Arc;

use proptest::prelude::*;
use wharf_backend::usage::UsageClass;
use wharf_backend::{Heap, MemBackend, TransferError};
use wharf_softdma::{ChannelConfig, Config, SoftDma};
use wharf_source::HeapSource;
use wharf_sync::Blocking;
use wharf_tensor::{BatchError, Parts, Tensor, TensorError};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Target = Parts<Memory, HeapSource>;

const LEN: usize = 700;
/// The last of four is the host's.
const HOST: usize = 3;
/// Bytes of a piece that goes through the host.
const PIECE: usize = 256;

/// Which tensor, and where.
type At = (usize, usize);

#[derive(Clone, Debug)]
enum Move {
    Copy { from: At, to: At, len: usize },
    Write(Vec<(At, Vec<u8>)>),
    Read(Vec<(At, usize)>),
}

fn at() -> impl Strategy<Value = At> {
    (0..=HOST, 0..LEN)
}

fn moves() -> impl Strategy<Value = Move> {
    let copy = (at(), at(), 0..=LEN).prop_map(|(from, to, len)| {
        let len = len.min(LEN - from.1).min(LEN - to.1);
        Move::Copy { from, to, len }
    });
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let write = (at(), bytes).prop_map(|(at, mut bytes)| {
        bytes.truncate(LEN - at.1);
        (at, bytes)
    });
    let read = (at(), 0..40_usize).prop_map(|(at, len)| (at, len.min(LEN - at.1)));
    prop_oneof![
        3 => copy,
        2 => prop::collection::vec(write, 0..8).prop_map(Move::Write),
        1 => prop::collection::vec(read, 0..8).prop_map(Move::Read),
    ]
}

/// Of operations on these tensors, which have happened when the nth transfer of the device failed: all before the one that is answered.
fn ended(tensors: impl Iterator<Item = usize>, fault: u64) -> Option<usize> {
    let mut on_device = tensors.enumerate().filter(|(_, tensor)| *tensor != HOST);
    let nth = usize::try_from(fault.checked_sub(1)?).unwrap();
    on_device.nth(nth).map(|(op, _)| op)
}

/// The answer of a batch that ended with `op`, of operations of these lengths.
fn answer(
    op: Option<usize>,
    fault: u64,
    lens: impl Iterator<Item = usize>,
) -> Result<(), BatchError> {
    let Some(op) = op else { return Ok(()) };
    let error = TransferError::Injected { call: fault };
    Err(match lens.take(op).sum::<usize>() as u64 {
        0 => BatchError::Refused {
            op,
            error: TensorError::Transfer(error),
        },
        bytes => BatchError::Partial { op, bytes, error },
    })
}

/// Transfers of the device for a copy of `len` bytes that is not one of them, and after how many of them how many bytes have moved.
fn copied(from: usize, to: usize, len: usize, fault: u64) -> Result<(), Option<usize>> {
    let on_device = |tensor: usize| tensor != HOST;
    let channel = |tensor: usize| tensor / 2;
    let nth = usize::try_from(fault).unwrap();
    match (on_device(from), on_device(to)) {
        _ if nth == 0 => Ok(()),
        (false, false) => Ok(()),
        (true, true) if len == 0 => Ok(()),
        (true, true) if channel(from) != channel(to) => {
            let pieces = len.div_ceil(PIECE);
            match nth.div_ceil(2) {
                piece if piece > pieces => Ok(()),
                1 => Err(None),
                piece => Err(Some((piece - 1) * PIECE)),
            }
        }
        _ if nth == 1 => Err(None),
        _ => Ok(()),
    }
}

proptest! {
    #[test]
    fn every_move_is_that_of_plain_bytes(moves in prop::collection::vec((moves(), 0..8_u64), 1..24)) {
        let channel = ChannelConfig::new(1 << 12);
        let device = SoftDma::<()>::open(Config::of(channel).with(channel)).unwrap();
        let [near, far] = device.channels() else { panic!("two channels") };
        let memories: [Memory; 4] = [
            near.clone(),
            Arc::new(near.tagged("model", UsageClass::IO)),
            far.clone(),
            Arc::new(Heap::new()),
        ];
        let mut plain = [0_u8, 1, 2, 3].map(|seed| {
            (0..LEN).map(|at| u8::try_from(at % 251).unwrap().wrapping_mul(2 * seed + 1)).collect::<Vec<u8>>()
        });
        let target = Target::new(HeapSource);
        let mut tensors = Vec::new();
        for (memory, bytes) in memories.into_iter().zip(&plain) {
            let tensor = Tensor::alloc(&target, memory, LEN).unwrap();
            tensor.write(0, bytes).unwrap();
            tensors.push(tensor);
        }
        for (one, fault) in moves {
            device.faults().fail_transfer(fault);
            match one {
                Move::Copy { from, to, len } => {
                    let window = |(tensor, start): At| tensors[tensor].slice(start..start + len).unwrap();
                    let found = window(to).copy_from(&window(from));
                    let error = TransferError::Injected { call: fault };
                    let (expected, done) = match copied(from.0, to.0, len, fault) {
                        Ok(()) => (Ok(()), len),
                        Err(None) => (Err(TensorError::Transfer(error)), 0),
                        Err(Some(done)) => (Err(TensorError::Partial { done, len, error }), done),
                    };
                    prop_assert_eq!(found, expected);
                    let bytes = plain[from.0][from.1..][..done].to_vec();
                    plain[to.0][to.1..][..done].copy_from_slice(&bytes);
                }
                Move::Write(writes) => {
                    let ops: Vec<_> = writes
                        .iter()
                        .map(|((tensor, start), bytes)| tensors[*tensor].write_op(*start, bytes))
                        .collect();
                    let op = ended(writes.iter().map(|(at, _)| at.0), fault);
                    let lens = writes.iter().map(|(_, bytes)| bytes.len());
                    prop_assert_eq!(Tensor::write_batch(&ops), answer(op, fault, lens));
                    for ((tensor, start), bytes) in writes.iter().take(op.unwrap_or(usize::MAX)) {
                        plain[*tensor][*start..][..bytes.len()].copy_from_slice(bytes);
                    }
                }
                Move::Read(reads) => {
                    let mut buffers: Vec<_> = reads.iter().map(|(_, len)| vec![0xA5_u8; *len]).collect();
                    let mut ops: Vec<_> = reads
                        .iter()
                        .zip(&mut buffers)
                        .map(|(((tensor, start), _), bytes)| tensors[*tensor].read_op(*start, bytes))
                        .collect();
                    let op = ended(reads.iter().map(|(at, _)| at.0), fault);
                    let lens = reads.iter().map(|(_, len)| *len);
                    prop_assert_eq!(Tensor::read_batch(&mut ops), answer(op, fault, lens));
                    for (at, (((tensor, start), len), found)) in reads.iter().zip(&buffers).enumerate() {
                        let done = op.is_none_or(|op| at < op);
                        let expected = if done { plain[*tensor][*start..][..*len].to_vec() } else { vec![0xA5; *len] };
                        prop_assert_eq!(found, &expected);
                    }
                }
            }
            device.faults().fail_transfer(0);
            for (tensor, expected) in tensors.iter().zip(&plain) {
                let mut found = vec![0; LEN];
                // The fence is nobody's any more.
                tensor.try_read(0, &mut found).unwrap();
                prop_assert_eq!(&found, expected);
            }
        }
    }
}
