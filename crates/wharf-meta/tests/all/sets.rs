//! Tensor sets, against a plain list, and with every allocation refused in turn.

use std::sync::Arc;

use crate::common::{Faulty, Host, faulty, host};
use proptest::prelude::*;
use wharf_backend::{Heap, MemBackend, StaticPool};
use wharf_meta::{
    BindError, DType, NameTooLong, SetError, ShortName, TensorInfo, TensorSet, Usage,
};
use wharf_source::{HeapSource, SourceError};
use wharf_sync::Blocking;
use wharf_tensor::{Parts, Tensor};

fn set() -> TensorSet<Host> {
    TensorSet::new(&Host::new(HeapSource))
}

#[test]
fn a_set_owns_a_handle_to_what_it_names() {
    let memory = Arc::new(StaticPool::<Blocking, 64, 2>::new());
    let target = Parts::<Arc<StaticPool<Blocking, 64, 2>>, HeapSource>::new(HeapSource);
    let mut set = TensorSet::new(&target);
    let tensor = Tensor::alloc(&target, memory.clone(), 64).unwrap();
    tensor.write(0, b"kept").unwrap();
    set.insert("weights", tensor).unwrap();
    assert_eq!(memory.census().in_use, 1, "the set has the last handle");
    assert_eq!(&set.get("weights").unwrap().lend().unwrap()[..4], b"kept");

    let replaced = set.insert("weights", Tensor::empty()).unwrap().unwrap();
    assert_eq!(&replaced.lend().unwrap()[..4], b"kept");
    assert_eq!(set.len(), 1);
    drop(replaced);
    assert_eq!(memory.census().in_use, 0);

    set.insert("a", Tensor::alloc(&target, memory.clone(), 1).unwrap())
        .unwrap();
    assert!(!set.is_empty());
    set.clear();
    assert_eq!((memory.census().in_use, set.is_empty()), (0, true));
}

#[test]
fn what_is_taken_out_leaves_its_room_to_what_comes() {
    let (target, source) = faulty();
    let mut set = TensorSet::new(&target);
    let name = "n".repeat(200);
    set.insert("kept", Tensor::empty()).unwrap();
    set.insert(&name, Tensor::empty()).unwrap();
    // From here on there is no more memory.
    source.fail_every(1);
    for _ in 0..100 {
        set.remove(&name).unwrap();
        set.insert(&name, Tensor::empty()).unwrap();
    }
    assert!(set.contains("kept") && set.len() == 2);
    let mut both = set.iter();
    assert_eq!((both.len(), both.size_hint()), (2, (2, Some(2))));
    assert_eq!(both.next_back().map(|(name, _)| name), Some(&*name));
    assert_eq!(both.len(), 1);
}

#[test]
fn a_miss_names_the_name_and_changes_nothing() {
    let mut set = set();
    set.insert("a", host(b"1")).unwrap();
    let missed = set.get("b").unwrap_err();
    assert_eq!(missed.to_string(), "there is no tensor `b`");
    assert_eq!(set.remove("").unwrap_err().name, ShortName::new(""));
    assert!(set.contains("a") && !set.contains("aa"));
    assert_eq!(
        format!("{:?}", set.iter().map(|(name, _)| name).collect::<Vec<_>>()),
        "[\"a\"]"
    );
}

#[test]
fn names_of_any_content_up_to_255_bytes_are_told_apart() {
    let mut set = set();
    let longest = "n".repeat(255);
    for (i, name) in ["", "\0", "a/b", "..", "A", "a", &longest]
        .into_iter()
        .enumerate()
    {
        set.insert(name, host(&vec![0; i])).unwrap();
    }
    for (i, name) in ["", "\0", "a/b", "..", "A", "a", &longest]
        .into_iter()
        .enumerate()
    {
        assert_eq!(set.get(name).unwrap().len(), i, "{name:?}");
    }
    for len in [256, 64 << 10] {
        let refused = set.insert(&"n".repeat(len), host(b"back")).unwrap_err();
        assert_eq!(refused.error, SetError::Name(NameTooLong { len }));
        assert_eq!(
            refused.error.to_string(),
            format!("a name of {len} bytes, at most 255 are kept")
        );
        assert_eq!(*refused.value.lend().unwrap(), *b"back");
    }
    assert_eq!(set.len(), 7);
}

#[test]
fn a_set_is_held_against_what_a_model_says() {
    let image = TensorInfo::input("image", DType::U8, &[2, 2]).unwrap();
    let scores = TensorInfo::output("scores", DType::F32, &[3]).unwrap();
    let mut set = set();
    set.insert("unasked", host(b"")).unwrap();
    set.insert("image", host(b"0000")).unwrap();
    let missing = BindError::Missing {
        name: ShortName::new("scores"),
        usage: Usage::Out,
        expected: 12,
    };
    assert_eq!(set.check([&image]), Ok(()));
    assert_eq!(set.check(&[image, scores]), Err(missing));
    assert_eq!(
        missing.to_string(),
        "output `scores` of 12 bytes is not in the set"
    );
    set.insert("scores", host(&[0; 13])).unwrap();
    let size = set.check(&[image, scores]).unwrap_err();
    assert_eq!(
        size.to_string(),
        "output `scores` takes 12 bytes, the tensor has 13"
    );
    // The size of a slice is its own, not that of its storage.
    let slice = set.get("scores").unwrap().slice(..12).unwrap();
    set.insert("scores", slice).unwrap();
    assert_eq!(set.check(&[image, scores]), Ok(()));
}

#[test]
fn room_that_was_made_is_enough() {
    let (target, source) = faulty();
    let tensor = Tensor::alloc(&target, Heap::new(), 1).unwrap();
    let mut set = TensorSet::new(&target);
    set.try_reserve(3, 6).unwrap();
    source.fail_every(1);
    for name in ["a", "bb", "ccc"] {
        set.insert(name, tensor.clone()).unwrap();
    }
    assert!(matches!(
        set.insert("d", tensor.clone()).unwrap_err().error,
        SetError::Refused(SourceError::Injected { .. })
    ));
    assert!(
        set.insert("bb", tensor).unwrap().is_some(),
        "replacing asks for nothing"
    );
    assert_eq!(set.len(), 3);
}

#[test]
fn a_cleared_set_keeps_its_memory_and_uses_it_again() {
    let (target, source) = faulty();
    let mut set = TensorSet::new(&target);
    set.try_reserve(1, 3).unwrap();
    source.fail_every(1);
    for name in ["one", "two", "six"] {
        set.insert(name, Tensor::empty()).unwrap();
        assert!(set.iter().map(|(name, _)| name).eq([name]));
        set.clear();
    }
}

#[test]
fn every_refused_block_leaves_the_set_as_it_was() {
    let names = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "a longer name than the others",
    ];
    let (target, source) = faulty();
    let tensor = Tensor::alloc(&target, Heap::new(), 1).unwrap();
    let fill = |set: &mut TensorSet<Faulty>| {
        names
            .iter()
            .try_for_each(|name| set.insert(name, tensor.clone()).map(drop))
    };
    source.fail_nth(u64::MAX);
    fill(&mut TensorSet::new(&target)).unwrap();
    let blocks = source.calls();
    assert!(blocks >= 4, "both arrays grow: {blocks}");

    for nth in 1..=blocks {
        let mut set = TensorSet::new(&target);
        source.fail_nth(nth);
        let refused = fill(&mut set).unwrap_err();
        assert!(
            matches!(refused.error, SetError::Refused(SourceError::Injected { call, .. }) if call == nth)
        );
        assert_eq!(refused.value.storage_id(), tensor.storage_id());
        // What was there before is, in order; what was refused is not, and can be added later.
        let there = set.len();
        assert!(
            set.iter()
                .map(|(name, _)| name)
                .eq(names[..there].iter().copied())
        );
        for name in &names[there..] {
            assert!(!set.contains(name), "block {nth}: {name}");
            set.insert(name, tensor.clone()).unwrap();
        }
        assert!(set.iter().map(|(name, _)| name).eq(names));
    }
}

#[test]
fn a_name_whose_tensor_was_refused_leaves_no_bytes_behind() {
    let (target, source) = faulty();
    let mut set = TensorSet::new(&target);
    set.try_reserve(0, 10).unwrap();
    source.fail_every(1);
    let mut refused = || match set.insert("ten bytes.", Tensor::empty()).unwrap_err().error {
        SetError::Refused(error) => error.requested(),
        other => panic!("{other}"),
    };
    // Room for the handle is asked for each time, never more for the name.
    let first = refused();
    assert!(first >= 40, "{first}");
    assert_eq!(refused(), first);
}

#[cfg(feature = "critical-section")]
/// Without a heap, a set is as large as its pool or its bump buffer.
#[test]
fn a_set_lives_in_the_source_it_is_given() {
    use wharf_source::StaticPoolSource;
    use wharf_sync::Critical;

    type Blocks = StaticPoolSource<Critical, 2048, 2>;
    static BLOCKS: Blocks = Blocks::new();
    let target = Parts::<Heap<Critical>, &'static Blocks>::new(&BLOCKS);
    let mut set = TensorSet::new(&target);
    let mut names = Vec::new();
    let refused = loop {
        let name = format!("tensor {}", names.len());
        match set.insert(&name, Tensor::empty()) {
            Ok(_) => names.push(name),
            Err(refused) => break refused.error,
        }
    };
    assert!(
        matches!(refused, SetError::Refused(SourceError::Exhausted { .. })),
        "{refused}"
    );
    assert!(names.len() >= 4, "{}", names.len());
    assert!(set.iter().map(|(name, _)| name).eq(&names));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(String, usize),
    Remove(String),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || "[ab/ä]{0,3}";
    prop::collection::vec(
        prop_oneof![
            6 => (name(), 0..9_usize).prop_map(|(name, len)| Step::Insert(name, len)),
            3 => name().prop_map(Step::Remove),
            1 => Just(Step::Clear),
        ],
        0..60,
    )
}

proptest! {
    #[test]
    fn a_set_behaves_as_a_list_of_names(steps in steps()) {
        let mut set = set();
        let mut model: Vec<(String, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(name, len) => {
                    let before = set.insert(&name, host(&vec![7; len])).unwrap();
                    let at = model.iter().position(|(n, _)| *n == name);
                    prop_assert_eq!(before.map(|tensor| tensor.len()), at.map(|at| model[at].1));
                    match at {
                        Some(at) => model[at].1 = len,
                        None => model.push((name, len)),
                    }
                }
                Step::Remove(name) => {
                    let at = model.iter().position(|(n, _)| *n == name);
                    let removed = set.remove(&name);
                    prop_assert_eq!(removed.ok().map(|tensor| tensor.len()), at.map(|at| model.remove(at).1));
                }
                Step::Clear => {
                    set.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(set.len(), model.len());
            let there = set.iter().map(|(name, tensor)| (name.to_owned(), tensor.len()));
            prop_assert!(there.eq(model.iter().cloned()));
            prop_assert!(set.iter().rev().map(|(name, _)| name).eq(model.iter().rev().map(|(name, _)| name)));
            for (name, len) in &model {
                prop_assert_eq!(set.get(name).unwrap().len(), *len);
            }
        }
    }
}
