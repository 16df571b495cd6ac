//! Every allocation of a piece of work is failed in turn. Nothing is lost, and afterwards it works.

use wharf_backend::{BackendExt, FaultInject, MemBackend, SegmentMut, StaticPool};
use wharf_segment::{PushError, Rope, View};
use wharf_source::{FaultSource, HeapSource, PoolSource, SizeClass};
use wharf_sync::Unsync;

type Pool = FaultInject<StaticPool<Unsync, 64, 24>>;
type Source<'s> = FaultSource<&'s PoolSource<'s, Unsync>>;

/// What went wrong does not matter here, only that it was told.
struct Refused;

fn piece(pool: &Pool, byte: u8) -> Result<View<&Pool>, Refused> {
    let unique: SegmentMut<_, _> = pool.alloc(3).map_err(|_| Refused)?;
    Ok(View::from(unique.filled(byte).map_err(|_| Refused)?))
}

/// Spills, copies and gathers, with every operation that may be refused. After each one that was, all that it took is as it was.
fn work<'s>(pool: &Pool, source: &'s Source<'s>) -> Result<Vec<u8>, Refused> {
    let mut rope = Rope::with_source(source);
    for byte in *b"abcdefghij" {
        let before = rope.len();
        if let Err(refused) = rope.push(piece(pool, byte)?) {
            assert_eq!((rope.len(), &*refused.value), (before, &[byte; 3][..]));
            return Err(Refused);
        }
    }
    rope.push_front(piece(pool, b'-')?).map_err(|_| Refused)?;
    let bytes: Vec<u8> = rope.bytes().collect();
    let untouched = |rope: &Rope<_, _>| assert_eq!(*rope, bytes[..]);

    let mut part = rope
        .slice(4..20)
        .map_err(|_| untouched(&rope))
        .map_err(|()| Refused)?;
    let mut clone = rope
        .try_clone()
        .map_err(|_| untouched(&rope))
        .map_err(|()| Refused)?;
    let both = rope
        .concat(&part)
        .map_err(|_| untouched(&rope))
        .map_err(|()| Refused)?;
    let tail = clone
        .split_off(7)
        .map_err(|_| untouched(&clone))
        .map_err(|()| Refused)?;
    let mut rest = tail.try_clone().map_err(|_| Refused)?;
    let head = rest
        .split_to(13)
        .map_err(|_| assert_eq!(rest, tail))
        .map_err(|()| Refused)?;
    let (ours, theirs) = (clone.len(), part.len());
    if clone.append(&mut part).is_err() {
        assert_eq!((clone.len(), part.len()), (ours, theirs));
        return Err(Refused);
    }
    let ours = clone.len();
    if clone.extend_from_links(head.links()).is_err() {
        assert_eq!((clone.len(), head.len()), (ours, 13));
        return Err(Refused);
    }
    let gathered = rope
        .gather(pool)
        .map_err(|_| untouched(&rope))
        .map_err(|()| Refused)?;
    let whole = both
        .slice(..30)
        .map_err(|_| Refused)?
        .materialise(pool)
        .map_err(|_| Refused)?;
    let small = match whole.slice(1..9).map_err(|_| Refused)?.compact_into(pool) {
        Ok(small) => small,
        Err(refused) => {
            assert_eq!(refused.value, whole[1..9]);
            return Err(Refused);
        }
    };
    Ok([
        &*gathered,
        &small,
        &*clone.gather(pool).map_err(|_| Refused)?,
    ]
    .concat())
}

fn swept(refuse: impl Fn(&Pool, &Source<'_>, u64), calls: impl Fn(&Pool, &Source<'_>) -> u64) {
    let mut slab = vec![core::mem::MaybeUninit::uninit(); 1 << 16];
    let mut classes = [SizeClass::EMPTY; 16];
    let blocks = PoolSource::new(&mut slab, &mut classes);
    let (pool, source) = (
        FaultInject::new(StaticPool::new()),
        FaultSource::new(&blocks),
    );
    let expected = work(&pool, &source).unwrap_or_else(|Refused| panic!("nothing was to fail"));
    assert_eq!(expected.len(), 33 + 8 + 7 + 16 + 13);
    let calls = calls(&pool, &source);
    // More than a few: otherwise this proves nothing.
    assert!(calls >= 5, "{calls}");
    let carved = blocks.used();
    for nth in 1..=calls {
        refuse(&pool, &source, nth);
        assert!(
            work(&pool, &source).is_err(),
            "call {nth} was refused, and nobody said so"
        );
        assert_eq!(pool.census().in_use, 0, "call {nth}");
    }
    refuse(&pool, &source, 0);
    assert_eq!(
        work(&pool, &source).ok(),
        Some(expected),
        "as if nothing had been"
    );
    assert_eq!(pool.census().in_use, 0);
    assert_eq!(
        blocks.used(),
        carved,
        "every block came back, and served again"
    );
}

#[test]
fn every_block_that_a_rope_takes_may_be_refused() {
    swept(
        |_, source, nth| source.fail_nth(nth),
        |_, source| source.calls(),
    );
}

#[test]
fn every_segment_may_be_refused() {
    swept(
        |pool, _, nth| match nth {
            0 => pool.fail_none(),
            nth => pool.fail_nth(nth),
        },
        |pool, _| pool.calls(),
    );
}

#[test]
fn a_rope_of_the_heap_frees_its_block() {
    // The leak checker looks on.
    let pool = FaultInject::new(StaticPool::<Unsync, 64, 24>::new());
    let mut rope = Rope::with_source(HeapSource);
    for byte in 0..20 {
        rope.push(piece(&pool, byte).ok().unwrap()).unwrap();
    }
    assert_eq!(rope.len(), 60);
    let taken = rope.into_iter().nth(7);
    assert_eq!(taken.unwrap(), [7; 3]);
    assert_eq!(pool.census().in_use, 0);
}

/// A rope asks for the block that is foretold, whether it is told how many links there will be or not.
#[test]
fn the_block_of_the_links_is_foretold() {
    const LINK: usize = size_of::<View<&Pool>>();
    let pool = Pool::new(StaticPool::new());
    let block = |links| Rope::<&Pool>::link_block(links).unwrap().size();

    let told = |links| Rope::<&Pool>::new().try_reserve(links).unwrap_err();
    assert_eq!(told(3).requested(), 8 * LINK);
    assert_eq!(told(9).requested(), 9 * LINK);
    assert_eq!(
        (block(3), block(8), block(9)),
        (8 * LINK, 8 * LINK, 9 * LINK)
    );
    let mut rope = Rope::new();
    let refused = (0..3).find_map(|byte| {
        let piece = piece(&pool, byte).unwrap_or_else(|Refused| panic!("24 slots"));
        rope.push(piece).err()
    });
    let Some(PushError::NoRoom { links: 3, refusal }) = refused.map(|refused| refused.error) else {
        panic!("there is room for two")
    };
    assert_eq!(refusal.requested(), block(3));

    assert_eq!(Rope::<&Pool>::link_block(usize::MAX), None);
    // As the documentation says of erased ones.
    let erased = Rope::<&dyn MemBackend<Policy = Unsync>>::link_block(8).unwrap();
    assert_eq!(erased.size(), 8 * 5 * size_of::<usize>());
}
