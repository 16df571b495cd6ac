//! The demo's own code, on the CPU, over pools: as firmware runs it, but where every allocation can be failed.

use std::boxed::Box;

use digits::load::{OwnedModel, OwnedTestSet};
use digits::{Batch, ClassifyError, Network, Score, run};
use wharf_backend::{AllocError, FaultInject, MemBackend, StaticPool};
use wharf_engine::{CpuEngine, Stream};
use wharf_source::{BlockSource, StaticPoolSource};
use wharf_sync::Critical;
use wharf_tensor::{Firmware, TensorError, Tickets};

type Blocks = StaticPoolSource<Critical, 2048, 4>;
type Board = Firmware<Critical, Blocks>;
type Weights = FaultInject<StaticPool<Critical, { Network::<Board>::BYTES }, 1>>;
type Batches = FaultInject<StaticPool<Critical, { Batch::<Board>::LARGEST }, 3>>;

struct Memory {
    blocks: &'static Blocks,
    weights: &'static Weights,
    batches: &'static Batches,
}

/// Statics, as on a board; one set a test.
fn memory() -> Memory {
    Memory {
        blocks: Box::leak(Box::new(Blocks::new())),
        weights: Box::leak(Box::new(FaultInject::new(StaticPool::new()))),
        batches: Box::leak(Box::new(FaultInject::new(StaticPool::new()))),
    }
}

fn classify(memory: &Memory, images: usize) -> Result<Score, ClassifyError> {
    let model = OwnedModel::from_safetensors(include_bytes!("../data/digits-mlp.safetensors"))
        .expect("the model is whole");
    let tests = OwnedTestSet::from_safetensors(include_bytes!("../data/digits-test.safetensors"))
        .expect("the test set is whole");
    let tests = tests.lend();
    let tests = digits::TestSet::new(
        &tests.images()[..images * 64],
        &tests.labels()[..images],
        &tests.expected()[..images],
    )
    .expect("a part of a test set is one");
    let target = Board::new(memory.blocks);
    let engine = CpuEngine::<Critical, Tickets<Board>>::new(Stream::claim().expect("a stream"));
    let mut seen = 0;
    let score = run(
        &target,
        (memory.weights, memory.batches),
        &engine,
        &model.lend(),
        &tests,
        |done| {
            assert!(done > seen, "progress goes forward");
            seen = done;
        },
    )?;
    assert_eq!((seen, engine.in_use()), (images, 0));
    Ok(score)
}

#[test]
fn it_answers_as_the_model_is_known_to() {
    let memory = memory();
    let score = classify(&memory, 360).expect("enough memory");
    let expected = Score {
        images: 360,
        correct: 353,
        matches_expected: 360,
        // 9,640 bytes of weights and 64 an image; 10 scores of 4 bytes an image.
        bytes_to_device: 9_640 + 360 * 64,
        bytes_from_device: 360 * 40,
    };
    assert_eq!(score, expected);
    assert_eq!(memory.weights.census().peak, 1);
    assert_eq!(memory.batches.census().peak, 3);
}

#[test]
fn wherever_memory_runs_out_nothing_is_lost() {
    let memory = memory();
    // Once through, for the mark that the control blocks of a run reach.
    assert_eq!(classify(&memory, 3).map(|score| score.images), Ok(3));
    let blocks = memory.blocks.used();
    // One allocation of weights, three of a batch: each is refused once.
    for (weights, batches) in [(1, 0), (0, 1), (0, 2), (0, 3)] {
        memory.weights.fail_nth(weights);
        memory.batches.fail_nth(batches);
        let call = weights.max(batches);
        let refused = TensorError::Alloc(AllocError::Injected { call });
        assert_eq!(classify(&memory, 3), Err(ClassifyError::Tensor(refused)));
        assert_eq!(memory.weights.census().in_use, 0);
        assert_eq!(memory.batches.census().in_use, 0);
    }
    memory.batches.fail_nth(0);
    assert_eq!(
        classify(&memory, 3).map(|score| score.matches_expected),
        Ok(3)
    );
    assert_eq!(
        memory.batches.calls(),
        3,
        "there is no fourth allocation to fail"
    );
    assert_eq!(
        memory.blocks.used(),
        blocks,
        "every control block came back"
    );
    assert_eq!((&memory.blocks).census().refused, 0);
}

#[test]
fn too_few_control_blocks_are_an_error_and_nothing_is_lost() {
    // Room for one storage's control block and not for a second.
    type Few = StaticPoolSource<Critical, 160, 4>;
    type Small = Firmware<Critical, Few>;
    let blocks: &'static Few = Box::leak(Box::new(Few::new()));
    let memory = memory();
    let target = Small::new(blocks);
    let model = OwnedModel::from_safetensors(include_bytes!("../data/digits-mlp.safetensors"))
        .expect("the model is whole");
    let network = Network::load(&target, memory.weights, &model.lend()).expect("one fits");
    let error = Batch::alloc(&target, memory.batches).unwrap_err();
    assert!(
        matches!(error, TensorError::Alloc(AllocError::Source(_))),
        "{error}"
    );
    assert_eq!(memory.batches.census().in_use, 0);
    drop(network);
    assert_eq!(memory.weights.census().in_use, 0);
}
