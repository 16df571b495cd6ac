//! A closed set of backends as one type.

/// Declares an enum of backends that is a backend: for a program that knows every memory it has, and wants one type for their
/// segments without a `dyn`.
///
/// Each call is a `match`, which the compiler resolves or turns into a jump; nothing is compared but the variant that the value
/// *is*, so no tag can lie. All variants have the policy that is named. With `host`, all must be
/// [`HostBackend`](crate::HostBackend), and the enum is one.
///
/// ```
/// #![forbid(unsafe_code)]
/// use wharf_backend::{Align32, BackendExt, BorrowedExclusive, MemBackend, StaticPool};
/// use wharf_sync::Unsync;
///
/// wharf_backend::backend_set! {
///     /// The memories of this board.
///     pub enum Memory<'b>: Unsync, host {
///         /// Fast, and small.
///         Tight(StaticPool<Unsync, 64, 4, Align32>),
///         /// What the boot loader left.
///         Lent(BorrowedExclusive<'b, Unsync>),
///     }
/// }
///
/// let mut left = [0; 256];
/// let memories = [
///     Memory::Tight(StaticPool::new()),
///     Memory::Lent(BorrowedExclusive::exclusive(&mut left)),
/// ];
/// let mut segments = Vec::new();
/// for memory in &memories {
///     let mut segment = memory.alloc(60)?.filled(1)?;
///     segment[0] = 2;
///     segments.push(segment); // One type, whatever the memory.
/// }
/// assert_eq!(segments[1].backend().name(), "borrowed, exclusive");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// In firmware the memories are statics. A static of the set is as large as its largest variant, so where the memories are of
/// different sizes, let the set refer to them:
///
/// ```
/// # #[cfg(feature = "critical-section")] {
/// use wharf_backend::wrap::OwnsBytes;
/// use wharf_backend::{MemBackend, Scrub, SegmentMut, Shared, StaticPool};
/// use wharf_sync::Critical;
///
/// type Headers = StaticPool<Critical, 16, 8>;
/// type Bodies = StaticPool<Critical, 1500, 4>;
/// static HEADERS: Headers = StaticPool::new();
/// static BODIES: Bodies = StaticPool::new();
///
/// wharf_backend::backend_set! {
///     pub enum Memory: Critical, host {
///         Headers(Shared<&'static Headers>),
///         Bodies(Shared<&'static Bodies>),
///     }
/// }
/// static SMALL: Memory = Memory::Headers(Shared::new(&HEADERS));
/// static LARGE: Memory = Memory::Bodies(Shared::new(&BODIES));
/// type Frame = SegmentMut<&'static Memory>; // Either's, with slices and without a `dyn`.
///
/// let frames: [Frame; 2] = [
///     SegmentMut::alloc(&SMALL, 2)?.init_from(b"ok")?,
///     SegmentMut::alloc(&LARGE, 4)?.init_from(b"body")?,
/// ];
/// assert_eq!((&*frames[0], &*frames[1]), (&b"ok"[..], &b"body"[..]));
/// assert_eq!((HEADERS.census().in_use, BODIES.census().in_use), (1, 1));
///
/// // What wrappers ask is yours to say, because only you know what is in the set.
/// impl OwnsBytes for Memory {}
/// let _secret = Scrub::new(Shared::new(&SMALL));
/// # }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It implements no marker of [`wrap`](crate::wrap): add those that are true of every variant.
///
/// A variant of another policy does not compile:
///
/// ```compile_fail,E0308
/// use wharf_backend::{Heap, StaticPool};
/// use wharf_sync::{Blocking, Unsync};
///
/// wharf_backend::backend_set! {
///     enum Memory: Unsync {
///         Pool(StaticPool<Unsync, 64, 4>),
///         Heap(Heap<Blocking>), // error: expected `Unsync`, found `Blocking`
///     }
/// }
/// ```
///
/// Nor does device memory in a set of host memories:
///
/// ```compile_fail,E0277
/// use wharf_backend::{BorrowedMmio, StaticPool};
/// use wharf_sync::Unsync;
///
/// wharf_backend::backend_set! {
///     enum Memory: Unsync, host {
///         Pool(StaticPool<Unsync, 64, 4>),
///         Registers(BorrowedMmio<'static, u32, Unsync>), // error: not known to be host memory
///     }
/// }
/// ```
#[macro_export]
macro_rules! backend_set {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident $(<$($lifetime:lifetime),+>)? : $policy:ty, host {
            $($(#[$note:meta])* $variant:ident($backend:ty)),+ $(,)?
        }
    ) => {
        $crate::backend_set! {
            $(#[$attribute])*
            $visible enum $name $(<$($lifetime),+>)? : $policy {
                $($(#[$note])* $variant($backend)),+
            }
        }
        const _: () = {
            // Every variant is host memory, or this does not compile.
            #[allow(dead_code, reason = "looked at by the compiler alone")]
            fn host<B: $crate::HostBackend>() {}
            #[allow(dead_code, reason = "looked at by the compiler alone")]
            fn all $(<$($lifetime),+>)? () {
                $(host::<$backend>();)+
            }
            // SAFETY: the place is the variant's, which is a `HostBackend`.
            unsafe impl $(<$($lifetime),+>)? $crate::HostBackend for $name $(<$($lifetime),+>)? {}
        };
    };
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident $(<$($lifetime:lifetime),+>)? : $policy:ty {
            $($(#[$note:meta])* $variant:ident($backend:ty)),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visible enum $name $(<$($lifetime),+>)? {
            $($(#[$note])* $variant($backend)),+
        }

        // SAFETY: every header comes from the variant's backend and goes back to it: while a segment is alive the enum is
        // borrowed, so the variant stays.
        unsafe impl $(<$($lifetime),+>)? $crate::MemBackend for $name $(<$($lifetime),+>)? {
            type Policy = $policy;

            #[inline]
            fn vend(
                &self,
                size: usize,
                hint: $crate::AllocHint,
            ) -> ::core::option::Option<::core::ptr::NonNull<$crate::Header<$policy>>> {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::vend(inner, size, hint),)+
                }
            }
            fn refusal(&self, size: usize, hint: $crate::AllocHint) -> $crate::AllocError {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::refusal(inner, size, hint),)+
                }
            }
            #[inline]
            unsafe fn reclaim(&self, header: ::core::ptr::NonNull<$crate::Header<$policy>>) {
                match self {
                    $(
                        // SAFETY: as the caller promises.
                        Self::$variant(inner) => unsafe { $crate::MemBackend::reclaim(inner, header) },
                    )+
                }
            }
            #[inline]
            unsafe fn place(&self, header: ::core::ptr::NonNull<$crate::Header<$policy>>) -> $crate::Place {
                match self {
                    $(
                        // SAFETY: as the caller promises.
                        Self::$variant(inner) => unsafe { $crate::MemBackend::place(inner, header) },
                    )+
                }
            }
            fn may_own(&self, header: ::core::ptr::NonNull<$crate::Header<$policy>>) -> bool {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::may_own(inner, header),)+
                }
            }
            fn caps(&self) -> $crate::Caps {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::caps(inner),)+
                }
            }
            fn space(&self) -> $crate::MemSpace {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::space(inner),)+
                }
            }
            fn alignment(&self) -> usize {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::alignment(inner),)+
                }
            }
            fn max_segment_size(&self) -> usize {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::max_segment_size(inner),)+
                }
            }
            fn census(&self) -> $crate::Census {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::census(inner),)+
                }
            }
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::name(inner),)+
                }
            }
            unsafe fn before_io(
                &self,
                header: ::core::ptr::NonNull<$crate::Header<$policy>>,
                offset: usize,
                len: usize,
                direction: $crate::IoDirection,
            ) {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::before_io(inner, header, offset, len, direction) }
                        }
                    )+
                }
            }
            unsafe fn after_io(
                &self,
                header: ::core::ptr::NonNull<$crate::Header<$policy>>,
                offset: usize,
                len: usize,
                direction: $crate::IoDirection,
            ) {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::after_io(inner, header, offset, len, direction) }
                        }
                    )+
                }
            }
            unsafe fn copy_in(
                &self,
                header: ::core::ptr::NonNull<$crate::Header<$policy>>,
                offset: usize,
                source: ::core::ptr::NonNull<u8>,
                len: usize,
            ) -> ::core::result::Result<(), $crate::TransferError> {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::copy_in(inner, header, offset, source, len) }
                        }
                    )+
                }
            }
            unsafe fn copy_out(
                &self,
                header: ::core::ptr::NonNull<$crate::Header<$policy>>,
                offset: usize,
                destination: ::core::ptr::NonNull<u8>,
                len: usize,
            ) -> ::core::result::Result<(), $crate::TransferError> {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::copy_out(inner, header, offset, destination, len) }
                        }
                    )+
                }
            }
            unsafe fn fill(
                &self,
                header: ::core::ptr::NonNull<$crate::Header<$policy>>,
                offset: usize,
                len: usize,
                byte: u8,
            ) -> ::core::result::Result<(), $crate::TransferError> {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::fill(inner, header, offset, len, byte) }
                        }
                    )+
                }
            }
            fn reaches(&self, address: $crate::DeviceAddress, len: usize) -> bool {
                match self {
                    $(Self::$variant(inner) => $crate::MemBackend::reaches(inner, address, len),)+
                }
            }
            unsafe fn copy_on_device(
                &self,
                from: $crate::DeviceAddress,
                to: $crate::DeviceAddress,
                len: usize,
            ) -> ::core::result::Result<(), $crate::TransferError> {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::copy_on_device(inner, from, to, len) }
                        }
                    )+
                }
            }
            unsafe fn transfer_all(
                &self,
                direction: $crate::IoDirection,
                pieces: &mut dyn ::core::iter::Iterator<Item = $crate::Piece>,
            ) -> ::core::result::Result<(), $crate::PieceError> {
                match self {
                    $(
                        Self::$variant(inner) => {
                            // SAFETY: as the caller promises.
                            unsafe { $crate::MemBackend::transfer_all(inner, direction, pieces) }
                        }
                    )+
                }
            }
        }
    };
}
