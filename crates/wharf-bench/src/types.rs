//! What a segment costs in memory beside its payload: the header, and every handle to it.
//!
//! Whoever builds this has the goals checked by the compiler, on the target that is built for.

use wharf_backend::{Header, MemBackend, SegmentMut, StaticPool};
use wharf_segment::Segment;
use wharf_sync::{Critical, Unsync};

type Typed = &'static StaticPool<Critical, 64, 8>;
type Erased = &'static dyn MemBackend<Policy = Critical>;

/// The control block of a segment that one context owns.
pub const HEADER_UNSYNC: usize = size_of::<Header<Unsync>>();
/// The control block of a segment that interrupts share.
pub const HEADER_CRITICAL: usize = size_of::<Header<Critical>>();
/// With one writable handle.
pub const WITH_UNIQUE: usize = HEADER_CRITICAL + size_of::<SegmentMut<Typed>>();
/// With one shared handle.
pub const WITH_SHARED: usize = HEADER_CRITICAL + size_of::<Segment<Typed>>();
/// With one shared handle that forgot the type of its backend.
pub const WITH_ERASED: usize = HEADER_CRITICAL + size_of::<Segment<Erased>>();

/// All of them, by the names of the constants.
pub const ALL: [(&str, usize); 5] = [
    ("HEADER_UNSYNC", HEADER_UNSYNC),
    ("HEADER_CRITICAL", HEADER_CRITICAL),
    ("WITH_UNIQUE", WITH_UNIQUE),
    ("WITH_SHARED", WITH_SHARED),
    ("WITH_ERASED", WITH_ERASED),
];

// 8 and 20 bytes on 32-bit targets, 16 and 40 on 64-bit ones.
const WORD: usize = size_of::<usize>();
const _: () = assert!(HEADER_UNSYNC <= 2 * WORD && HEADER_CRITICAL <= 2 * WORD);
const _: () = assert!(WITH_UNIQUE <= 5 * WORD && WITH_SHARED <= 5 * WORD);
const _: () = assert!(WITH_ERASED <= 5 * WORD);
