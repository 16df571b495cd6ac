//! From a number to a name: the directory against a model, the table, and errors told with names.

use std::sync::Arc;

use crate::common::{Books, Device, Stepped};
use proptest::prelude::*;
use wharf_backend::{MemBackend, MemSpace, StaticPool};
use wharf_engine::{Command, DescriptorError};
use wharf_sync::{Blocking, Critical, NoClock, SyncPolicy, Unsync};
use wharf_tensor::{
    Access, CompletionError, Directory, Explain, Launch, LaunchError, NoTrace, Parts, Tensor,
    TensorError,
};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Names<P> = Arc<Directory<P, Arc<Books>>>;
type Mixed = Parts<Memory, Arc<Books>, NoClock, NoTrace, Names<Blocking>>;

fn mixed() -> (Mixed, Names<Blocking>, [Memory; 2]) {
    let names = Names::default();
    let target = Mixed::with_directory(Arc::default(), NoClock, NoTrace, names.clone());
    let host = Arc::new(StaticPool::<Blocking, 4096, 4>::new());
    (target, names, [host, Arc::new(Device::<Blocking>::new())])
}

#[test]
fn an_error_is_told_with_the_name_the_size_and_the_place() {
    let (target, names, [host, device]) = mixed();
    let far = Tensor::alloc_named(&target, device, 4096, "conv1.weight").unwrap();
    let id = far.storage_id().unwrap();
    let stream = wharf_engine::Stream::claim().unwrap();
    let ticket = far.begin(Access::Write, stream.id()).unwrap();
    let error = far.try_read(0, &mut [0]).unwrap_err();
    assert_eq!(error.storage_id(), Some(id));
    assert_eq!(error.to_string(), format!("{id} is in use"));
    assert_eq!(
        names.explain(error).to_string(),
        format!("conv1.weight ({id}, 4096 bytes in device memory) is in use")
    );
    // A slice has no name of its own; its storage has one.
    let error = far.slice(8..9).unwrap().try_fill(0).unwrap_err();
    assert!(
        names
            .explain(error)
            .to_string()
            .starts_with("conv1.weight (")
    );
    drop(ticket);

    // Several names, and one that would break a line.
    let near = Tensor::alloc(&target, host.clone(), 10).unwrap();
    let id = near.storage_id().unwrap();
    let a = near.slice(..4).unwrap().named(&target, "a\n").unwrap();
    let b = near.slice(4..).unwrap().named_static(&target, "b").unwrap();
    let guard = near.lend_mut().unwrap();
    let error = a.fill(0).unwrap_err();
    let told = format!("a host guard is held on a\\n, b ({id}, 10 bytes in host memory)");
    assert_eq!(names.explain(error).to_string(), told);
    drop((guard, a, b));
    // Nobody is called so any more.
    assert_eq!(names.explain(error).to_string(), error.to_string());

    let later = Tensor::placeholder(&target, 5).unwrap();
    let later = later.named(&target, "later").unwrap();
    let id = later.storage_id().unwrap();
    let engine = Stepped::<Mixed>::new();
    let error = engine
        .launch(Command::Fill(0), &[later.output()])
        .unwrap_err();
    assert_eq!(
        names.explain(error).to_string(),
        format!("operand 0: later ({id}, 5 bytes without memory) is a placeholder without bytes")
    );
    let error = later.completions().unwrap().try_wait_for(2).unwrap_err();
    assert_eq!(
        names.explain(error).to_string(),
        format!("0 of 2 completions of later ({id}, 5 bytes without memory) so far")
    );
    assert_eq!(names.explain(error).error(), &error);
}

#[test]
fn every_error_about_a_storage_can_be_told_with_its_name() {
    let (target, names, [host, _]) = mixed();
    let tensor = Tensor::alloc_named(&target, host, 4, "T").unwrap();
    let storage = tensor.storage_id().unwrap();
    let about = [
        TensorError::WouldBlock { storage },
        TensorError::WouldDeadlock { storage },
        TensorError::Guarded { storage },
        TensorError::Split { storage },
        TensorError::InFlight {
            storage,
            reads: 1,
            writes: 2,
        },
        TensorError::Placeholder { storage },
        TensorError::Busy { storage, limit: 63 },
        TensorError::TimedOut { storage },
        TensorError::NotHostAddressable { storage },
    ];
    let name = format!("T ({storage}, 4 bytes in host memory)");
    let tells = |plain: String, told: String| {
        assert!(plain.contains(&storage.to_string()), "{plain}");
        assert_eq!(told, plain.replace(&storage.to_string(), &name));
    };
    for error in about {
        tells(error.to_string(), names.explain(error).to_string());
        let launch = LaunchError::Operand { operand: 3, error };
        tells(launch.to_string(), names.explain(launch).to_string());
    }
    for seen in 0..2 {
        let error = CompletionError::TimedOut {
            storage,
            expected: 7,
            seen,
        };
        tells(error.to_string(), names.explain(error).to_string());
    }
    // About no storage: as ever.
    fn same(names: &Names<Blocking>, error: impl Explain + Copy) {
        assert_eq!(error.storage_id(), None);
        assert_eq!(names.explain(error).to_string(), error.to_string());
    }
    let out = tensor.slice(3..9).unwrap_err();
    same(&names, out);
    same(&names, TensorError::NoStorage);
    same(
        &names,
        LaunchError::Operand {
            operand: 1,
            error: out,
        },
    );
    let operands = 9;
    same(
        &names,
        LaunchError::Descriptor(DescriptorError::TooManyOperands { operands }),
    );
}

#[test]
fn the_table_has_a_line_for_each_name_and_counts_memory_once() {
    let (target, names, [host, device]) = mixed();
    assert_eq!(
        names.to_string(),
        "       bytes  space   holders  reads  writes  storage  name\n0 names, 0 bytes\n"
    );
    let far = Tensor::alloc_named(&target, device, 4096, "far").unwrap();
    let near = Tensor::alloc_named(&target, host, 10, "near").unwrap();
    let part = near
        .slice(2..5)
        .unwrap()
        .named(&target, "near.part\0")
        .unwrap();
    let (left, _right) = near.split(4).unwrap();
    let left = left.named(&target, "near.left").unwrap();
    let later = Tensor::placeholder(&target, 1 << 30).unwrap();
    let later = later.named(&target, "later").unwrap();
    let stream = wharf_engine::Stream::claim().unwrap();
    let tickets =
        [Access::Read, Access::Write].map(|access| far.begin(access, stream.id()).unwrap());
    let id = |tensor: &Tensor<Mixed>| tensor.storage_id().unwrap().get();
    let (far_id, near_id, left_id, later_id) = (id(&far), id(&near), id(&left), id(&later));
    let table = format!(
        "       bytes  space   holders  reads  writes  storage  name
        4096  device        1      1       1  {far_id:#x}  far
          10  host          4      0       0  {near_id:#x}  near
           3  host          4      0       0  {near_id:#x}  near.part\\0
           4  host          1      0       0  {left_id:#x}  near.left
  1073741824  none          1      0       0  {later_id:#x}  later
5 names, 4106 bytes
"
    );
    assert_eq!(names.to_string(), table);
    let entry = names.find(part.storage_id().unwrap()).nth(1).unwrap();
    assert_eq!(
        (entry.offset(), entry.len(), entry.storage_len()),
        (2, 3, 10)
    );
    assert_eq!(
        (entry.space(), entry.in_flight()),
        (Some(MemSpace::Host), (0, 0))
    );
    part.completions().unwrap().complete();
    assert_eq!(entry.completions(), 1);
    drop((tickets, far, near));
    assert!(names.to_string().ends_with("3 names, 10 bytes\n"));
}

#[test]
fn who_goes_through_them_meanwhile_misses_none_that_stays() {
    let (target, names, [host, _]) = mixed();
    let tensor = |name: &str| {
        let tensor = Tensor::alloc(&target, host.clone(), 1).unwrap();
        tensor.named(&target, name).unwrap()
    };
    let base = tensor("0");
    let more = |name: &str| base.slice(..).unwrap().named(&target, name).unwrap();
    let (one, two, three) = (more("1"), more("2"), more("3"));
    let mut entries = names.iter();
    let mut next = || entries.next().map(|entry| entry.name().to_owned());
    assert_eq!(next().as_deref(), Some("0"));
    assert_eq!(next().as_deref(), Some("1"));
    // The one it stands on goes, with the one before and the one after; another one comes.
    drop((base.clone(), one, two));
    let four = more("4");
    assert_eq!(next().as_deref(), Some("3"));
    drop(three);
    assert_eq!(next().as_deref(), Some("4"));
    assert_eq!(next(), None);
    drop(four);
    assert_eq!(next(), None);
    let five = more("5");
    assert_eq!(next().as_deref(), Some("5"), "asked again, it goes on");
    drop(five);
}

#[derive(Clone, Debug)]
enum Op {
    Alloc,
    Name(usize, String),
    Clone(usize),
    Slice(usize, usize, usize),
    Complete(usize),
    Reset(usize),
    Launch(usize),
    Step,
    Drop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let which = || 0_usize..32;
    prop_oneof![
        2 => Just(Op::Alloc),
        4 => (which(), "\\PC{0,5}").prop_map(|(tensor, name)| Op::Name(tensor, name)),
        3 => which().prop_map(Op::Clone),
        3 => (which(), 0_usize..9, 0_usize..9).prop_map(|(tensor, from, to)| Op::Slice(tensor, from, to)),
        2 => which().prop_map(Op::Complete),
        1 => which().prop_map(Op::Reset),
        2 => which().prop_map(Op::Launch),
        2 => Just(Op::Step),
        4 => which().prop_map(Op::Drop),
    ]
}

/// What a tensor should be.
#[derive(Clone, Copy, Debug)]
struct Model {
    storage: usize,
    offset: usize,
    len: usize,
    identity: Option<usize>,
}

/// What an identity should be. Those of one number are in the order in which they came.
#[derive(Clone, Debug)]
struct Identity {
    name: String,
    window: (usize, usize, usize),
    count: u32,
}

const LEN: usize = 8;

fn agrees<P: SyncPolicy>(ops: &[Op]) -> Result<(), TestCaseError>
where
    Directory<P, Arc<Books>>: Default,
    StaticPool<P, LEN, 4>: Default + MemBackend<Policy = P>,
{
    type Pooled<P> = Parts<Arc<StaticPool<P, LEN, 4>>, Arc<Books>, NoClock, NoTrace, Names<P>>;
    let pool = Arc::new(StaticPool::<P, LEN, 4>::default());
    let (books, names) = (Arc::new(Books::default()), Names::<P>::default());
    let target = Pooled::<P>::with_directory(books.clone(), NoClock, NoTrace, names.clone());
    let engine = Stepped::<Pooled<P>>::new();
    let mut real: Vec<Tensor<Pooled<P>>> = Vec::new();
    let mut model: Vec<Model> = Vec::new();
    let mut identities: Vec<Identity> = Vec::new();
    // Which storage and which identity each launch has.
    let mut queue: std::collections::VecDeque<(usize, Option<usize>)> = Default::default();
    let mut storages = 0;
    for op in ops {
        let pick = |which: &usize| (!model.is_empty()).then(|| which % model.len());
        match op {
            Op::Alloc => {
                let tensor = Tensor::alloc(&target, pool.clone(), LEN);
                let alive = |storage: &usize| {
                    model.iter().any(|one| one.storage == *storage)
                        || queue.iter().any(|one| one.0 == *storage)
                };
                prop_assert_eq!(tensor.is_ok(), (0..storages).filter(alive).count() < 4);
                if let Ok(tensor) = tensor {
                    real.push(tensor);
                    model.push(Model {
                        storage: storages,
                        offset: 0,
                        len: LEN,
                        identity: None,
                    });
                    storages += 1;
                }
            }
            Op::Name(which, name) => {
                let Some(at) = pick(which) else { continue };
                let named = std::mem::take(&mut real[at]).named(&target, name);
                real[at] = named.unwrap();
                let one = &mut model[at];
                one.identity = Some(identities.len());
                identities.push(Identity {
                    name: name.clone(),
                    window: (one.storage, one.offset, one.len),
                    count: 0,
                });
            }
            Op::Clone(which) => {
                let Some(at) = pick(which) else { continue };
                real.push(real[at].clone());
                model.push(model[at]);
            }
            Op::Slice(which, from, to) => {
                let Some(at) = pick(which) else { continue };
                let one = model[at];
                let sliced = real[at].slice(*from..*to);
                prop_assert_eq!(sliced.is_ok(), from <= to && *to <= one.len);
                if let Ok(sliced) = sliced {
                    real.push(sliced);
                    model.push(Model {
                        offset: one.offset + from,
                        len: to - from,
                        identity: None,
                        ..one
                    });
                }
            }
            Op::Complete(which) => {
                let Some(at) = pick(which) else { continue };
                let completions = real[at].completions();
                prop_assert_eq!(completions.is_some(), model[at].identity.is_some());
                if let (Some(completions), Some(id)) = (completions, model[at].identity) {
                    completions.complete();
                    identities[id].count += 1;
                }
            }
            Op::Reset(which) => {
                let Some(at) = pick(which) else { continue };
                if let (Some(completions), Some(id)) = (real[at].completions(), model[at].identity)
                {
                    let before = std::mem::take(&mut identities[id].count);
                    prop_assert_eq!(completions.reset(), before);
                }
            }
            Op::Launch(which) => {
                let Some(at) = pick(which) else { continue };
                let launched = engine.launch(Command::Fill(1), &[real[at].output()]);
                prop_assert_eq!(launched.is_ok(), queue.len() < 4);
                if launched.is_ok() {
                    queue.push_back((model[at].storage, model[at].identity));
                }
            }
            Op::Step => {
                prop_assert_eq!(engine.step(), !queue.is_empty());
                if let Some((_, Some(id))) = queue.pop_front() {
                    identities[id].count += 1;
                }
            }
            Op::Drop(which) => {
                let Some(at) = pick(which) else { continue };
                drop(real.swap_remove(at));
                model.swap_remove(at);
            }
        }
        // Each tensor knows its name and its count.
        for (real, model) in real.iter().zip(&model) {
            let identity = model.identity.map(|id| &identities[id]);
            prop_assert_eq!(real.name(), identity.map(|one| &*one.name));
            let count = real.completions().map(|completions| completions.count());
            prop_assert_eq!(count, identity.map(|one| one.count));
        }
        // The directory has those that a tensor has, in order, with what is true of their storages.
        let listed: Vec<_> = names.iter().collect();
        let has = |id: &usize| model.iter().any(|one| one.identity == Some(*id));
        let expected: Vec<usize> = (0..identities.len()).filter(has).collect();
        prop_assert_eq!(listed.len(), expected.len());
        for (entry, id) in listed.iter().zip(&expected) {
            let identity = &identities[*id];
            let (storage, offset, len) = identity.window;
            prop_assert_eq!(entry.name(), &*identity.name);
            prop_assert_eq!((entry.offset(), entry.len()), (offset, len));
            prop_assert_eq!(entry.completions(), identity.count);
            let holders = model.iter().filter(|one| one.storage == storage).count();
            prop_assert_eq!(entry.holders() as usize, holders);
            let writes = queue.iter().filter(|one| one.0 == storage).count();
            let (reads, writing) = entry.in_flight();
            prop_assert_eq!((reads, writing as usize), (0, writes));
            let at = model.iter().position(|one| one.storage == storage).unwrap();
            prop_assert_eq!(Some(entry.storage_id()), real[at].storage_id());
            let same = |id: &&usize| identities[**id].window.0 == storage;
            let found = names.find(entry.storage_id()).count();
            prop_assert_eq!(found, expected.iter().filter(same).count());
        }
        let mut named: Vec<usize> = expected.iter().map(|id| identities[*id].window.0).collect();
        named.sort_unstable();
        named.dedup();
        prop_assert_eq!(names.bytes(), named.len() * LEN);
    }
    drop(real);
    prop_assert_eq!(names.iter().count(), 0);
    while engine.step() {}
    prop_assert_eq!(
        (books.blocks(), books.foreign(), pool.census().in_use),
        (0, 0, 0)
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn names_of_one_thread_agree_with_a_model(ops in proptest::collection::vec(op(), 1..60)) {
        agrees::<Unsync>(&ops)?;
    }
    #[test]
    fn names_of_interrupts_and_threads_agree_with_a_model(ops in proptest::collection::vec(op(), 1..60)) {
        agrees::<Critical>(&ops)?;
    }
}
