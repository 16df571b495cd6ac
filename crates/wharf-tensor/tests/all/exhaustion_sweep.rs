//! Every allocation of a setup is made to fail in turn: nothing is lost, the error names the numbers, and what
//! was there before works on.

use std::sync::Arc;

use crate::common::{Books, Stepped};
use wharf_backend::{AllocError, FaultInject, MemBackend, SegmentMut, StaticPool};
use wharf_engine::{Command, KernelFault, Lent};
use wharf_source::SourceError;
use wharf_sync::Blocking;
use wharf_tensor::{Launch, Parts, Submission, Tensor, TensorError};

type Memory = FaultInject<StaticPool<Blocking, 64, 8>>;
type Swept = Parts<Arc<Memory>, Arc<Books>>;

struct Bench {
    memory: Arc<Memory>,
    books: Arc<Books>,
    target: Swept,
    engine: Stepped<Swept>,
}

fn bench() -> Bench {
    let memory = Arc::new(FaultInject::new(StaticPool::new()));
    let books = Arc::new(Books::default());
    Bench {
        target: Swept::new(books.clone()),
        memory,
        books,
        engine: Stepped::new(),
    }
}

impl Bench {
    fn held(&self) -> (usize, usize) {
        (self.memory.census().in_use, self.books.blocks())
    }
}

fn scale(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Read(weights), Lent::Read(input), Lent::Write(output)] = operands else {
        return Err(KernelFault(1));
    };
    let products = weights.iter().zip(input.iter()).map(|(w, x)| w * x);
    output
        .iter_mut()
        .zip(products)
        .for_each(|(out, product)| *out = product);
    Ok(())
}

/// What a program sets up: weights in one storage with a slice per layer, an input, an output, and a launch under way.
struct Setup<'e> {
    layers: [Tensor<Swept>; 2],
    input: Tensor<Swept>,
    output: Tensor<Swept>,
    submission: Submission<'e, Stepped<Swept>, Swept>,
}

fn setup(bench: &Bench) -> Result<Setup<'_>, TensorError> {
    let weights = Tensor::alloc(&bench.target, bench.memory.clone(), 8)?;
    weights.write(0, &[1, 2, 3, 4, 5, 6, 7, 8])?;
    let layers = [weights.slice(..4)?, weights.slice(4..)?];
    let filled = SegmentMut::alloc(bench.memory.clone(), 4)?.init_from(&[2, 2, 2, 2])?;
    let input = Tensor::from_segment(&bench.target, filled).map_err(|refused| refused.error)?;
    let output = Tensor::alloc(&bench.target, bench.memory.clone(), 4)?;
    let submission = bench
        .engine
        .launch(
            Command::Kernel(scale),
            &[layers[1].input(), input.input(), output.output()],
        )
        .unwrap();
    Ok(Setup {
        layers,
        input,
        output,
        submission,
    })
}

/// Runs a setup to its end and checks what comes out.
fn finish(bench: &Bench, setup: Setup<'_>) {
    assert!(bench.engine.step());
    setup.submission.wait().unwrap();
    assert_eq!(*setup.output.lend().unwrap(), [10, 12, 14, 16]);
    setup.input.copy_from(&setup.layers[0]).unwrap();
    assert_eq!(*setup.input.lend().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn each_segment_that_is_refused_leaves_nothing_behind() {
    let bench = bench();
    let before = setup(&bench).unwrap();
    let held = bench.held();
    assert_eq!(held, (3, 3));
    for nth in 1..=3 {
        bench.memory.fail_nth(nth);
        let refused = setup(&bench).map(drop);
        assert_eq!(
            refused,
            Err(TensorError::Alloc(AllocError::Injected { call: nth }))
        );
        assert_eq!(bench.memory.calls(), nth);
        assert_eq!(bench.held(), held, "segment {nth}");
    }
    // A fourth there is not.
    bench.memory.fail_nth(4);
    let mut again = setup(&bench).unwrap();
    assert_eq!(bench.memory.calls(), 3);
    finish(&bench, before);
    assert!(again.submission.poll(None).is_pending());
    finish(&bench, again);
    assert_eq!((bench.held(), bench.engine.in_use()), ((0, 0), 0));
}

#[test]
fn each_control_block_that_is_refused_leaves_nothing_behind() {
    let bench = bench();
    let before = setup(&bench).unwrap();
    let held = bench.held();
    let mut numbers = Vec::new();
    for nth in 1..=3 {
        bench.books.refuse_nth(nth);
        match setup(&bench).map(drop) {
            Err(TensorError::Alloc(AllocError::Source(SourceError::Exhausted {
                requested,
                available: 0,
            }))) => {
                numbers.push(requested);
            }
            other => panic!("block {nth}: {other:?}"),
        }
        assert_eq!(bench.books.calls(), nth);
        assert_eq!(bench.held(), held, "block {nth}");
    }
    // Every storage of a target has a block of one shape.
    assert!(numbers[0] > 0 && numbers.iter().all(|&bytes| bytes == numbers[0]));
    bench.books.refuse_nth(4);
    let again = setup(&bench).unwrap();
    assert_eq!(
        bench.books.calls(),
        3,
        "slices, guards and launches take no block"
    );
    finish(&bench, before);
    finish(&bench, again);
    assert_eq!((bench.held(), bench.books.foreign()), ((0, 0), 0));
}

#[test]
fn a_segment_that_finds_no_control_block_comes_back_whole() {
    let bench = bench();
    let segment = SegmentMut::alloc(bench.memory.clone(), 3)
        .unwrap()
        .init_from(b"abc")
        .unwrap();
    bench.books.refuse_nth(1);
    let refused = Tensor::from_segment(&bench.target, segment).unwrap_err();
    assert!(matches!(
        refused.error,
        TensorError::Alloc(AllocError::Source(_))
    ));
    assert_eq!(bench.held(), (1, 0));
    assert_eq!(&refused.value[..], b"abc");
    let tensor = Tensor::from_segment(&bench.target, refused.value).unwrap();
    assert_eq!(*tensor.lend().unwrap(), *b"abc");
    drop(tensor);
    assert_eq!(bench.held(), (0, 0));
}

#[test]
fn a_pool_that_is_all_in_use_names_its_numbers_and_serves_again() {
    let bench = bench();
    let mut tensors: Vec<_> = (0..8)
        .map(|_| Tensor::alloc(&bench.target, bench.memory.clone(), 64).unwrap())
        .collect();
    let slice = tensors[3].slice(10..20).unwrap();
    let refused = Tensor::alloc(&bench.target, bench.memory.clone(), 9).unwrap_err();
    let exhausted = AllocError::Exhausted {
        requested: 9,
        in_use: 512,
        capacity: 512,
    };
    assert_eq!(refused, TensorError::Alloc(exhausted));
    let large = Tensor::alloc(&bench.target, bench.memory.clone(), 65).unwrap_err();
    assert_eq!(
        large,
        TensorError::Alloc(AllocError::TooLarge {
            requested: 65,
            max: 64
        })
    );
    assert_eq!(bench.held(), (8, 8));
    // The slice keeps its storage; another one is free.
    drop(tensors.remove(3));
    assert!(Tensor::alloc(&bench.target, bench.memory.clone(), 9).is_err());
    drop(tensors.pop());
    tensors.push(Tensor::alloc(&bench.target, bench.memory.clone(), 9).unwrap());
    drop((tensors, slice));
    assert_eq!(bench.held(), (0, 0));
}
