//! What a wrapper does not change, it hands on.
//!
//! Named are the methods that it does change, not those that it hands on: a method of [`MemBackend`](crate::MemBackend)
//! that has a default, and that a wrapper forgets, would quietly fall back to that default (a hook that does nothing).

/// Inside an `unsafe impl MemBackend`: every method as the inner backend has it, except those that are named. In brackets: how
/// one gets from `self` to that backend.
///
/// ```text
/// hand_on! { [inner]; except vend refusal }
/// ```
macro_rules! hand_on {
    ([$($inner:tt)+]; except $($named:ident)*) => {
        $crate::wrap::hand_on::hand_on! { @each ($($inner)+) [$($named)*]
            vend refusal reclaim place may_own caps space alignment max_segment_size census name
            before_io after_io copy_in copy_out fill reaches copy_on_device transfer_all
        }
    };
    (@each $inner:tt $named:tt $($method:ident)*) => {
        $($crate::wrap::hand_on::hand_on! { @skip $method $inner $named })*
    };

    // Named: the wrapper's own.
    (@skip vend $inner:tt [vend $($rest:ident)*]) => {};
    (@skip refusal $inner:tt [refusal $($rest:ident)*]) => {};
    (@skip reclaim $inner:tt [reclaim $($rest:ident)*]) => {};
    (@skip place $inner:tt [place $($rest:ident)*]) => {};
    (@skip may_own $inner:tt [may_own $($rest:ident)*]) => {};
    (@skip caps $inner:tt [caps $($rest:ident)*]) => {};
    (@skip space $inner:tt [space $($rest:ident)*]) => {};
    (@skip alignment $inner:tt [alignment $($rest:ident)*]) => {};
    (@skip max_segment_size $inner:tt [max_segment_size $($rest:ident)*]) => {};
    (@skip census $inner:tt [census $($rest:ident)*]) => {};
    (@skip name $inner:tt [name $($rest:ident)*]) => {};
    (@skip before_io $inner:tt [before_io $($rest:ident)*]) => {};
    (@skip after_io $inner:tt [after_io $($rest:ident)*]) => {};
    (@skip copy_in $inner:tt [copy_in $($rest:ident)*]) => {};
    (@skip copy_out $inner:tt [copy_out $($rest:ident)*]) => {};
    (@skip fill $inner:tt [fill $($rest:ident)*]) => {};
    (@skip reaches $inner:tt [reaches $($rest:ident)*]) => {};
    (@skip copy_on_device $inner:tt [copy_on_device $($rest:ident)*]) => {};
    (@skip transfer_all $inner:tt [transfer_all $($rest:ident)*]) => {};
    // Another name: look further.
    (@skip $method:ident $inner:tt [$other:ident $($rest:ident)*]) => {
        $crate::wrap::hand_on::hand_on! { @skip $method $inner [$($rest)*] }
    };

    (@skip vend ($($inner:tt)+) []) => {
        #[inline]
        fn vend(
            &self,
            size: usize,
            hint: $crate::AllocHint,
        ) -> Option<::core::ptr::NonNull<$crate::Header<Self::Policy>>> {
            self.$($inner)+.vend(size, hint)
        }
    };
    (@skip refusal ($($inner:tt)+) []) => {
        fn refusal(&self, size: usize, hint: $crate::AllocHint) -> $crate::AllocError {
            self.$($inner)+.refusal(size, hint)
        }
    };
    (@skip reclaim ($($inner:tt)+) []) => {
        #[inline]
        unsafe fn reclaim(&self, header: ::core::ptr::NonNull<$crate::Header<Self::Policy>>) {
            // SAFETY: as the caller promises; the header is the inner backend's own.
            unsafe { self.$($inner)+.reclaim(header) }
        }
    };
    (@skip place ($($inner:tt)+) []) => {
        #[inline]
        unsafe fn place(
            &self,
            header: ::core::ptr::NonNull<$crate::Header<Self::Policy>>,
        ) -> $crate::Place {
            // SAFETY: as the caller promises; the header is the inner backend's own.
            unsafe { self.$($inner)+.place(header) }
        }
    };
    (@skip may_own ($($inner:tt)+) []) => {
        fn may_own(&self, header: ::core::ptr::NonNull<$crate::Header<Self::Policy>>) -> bool {
            self.$($inner)+.may_own(header)
        }
    };
    (@skip caps ($($inner:tt)+) []) => {
        #[inline]
        fn caps(&self) -> $crate::Caps {
            self.$($inner)+.caps()
        }
    };
    (@skip space ($($inner:tt)+) []) => {
        fn space(&self) -> $crate::MemSpace {
            self.$($inner)+.space()
        }
    };
    (@skip alignment ($($inner:tt)+) []) => {
        fn alignment(&self) -> usize {
            self.$($inner)+.alignment()
        }
    };
    (@skip max_segment_size ($($inner:tt)+) []) => {
        fn max_segment_size(&self) -> usize {
            self.$($inner)+.max_segment_size()
        }
    };
    (@skip census ($($inner:tt)+) []) => {
        fn census(&self) -> $crate::Census {
            self.$($inner)+.census()
        }
    };
    (@skip name ($($inner:tt)+) []) => {
        fn name(&self) -> &'static str {
            self.$($inner)+.name()
        }
    };
    (@skip before_io ($($inner:tt)+) []) => {
        $crate::wrap::hand_on::hand_on! { @hook before_io ($($inner)+) }
    };
    (@skip after_io ($($inner:tt)+) []) => {
        $crate::wrap::hand_on::hand_on! { @hook after_io ($($inner)+) }
    };
    (@skip copy_in ($($inner:tt)+) []) => {
        $crate::wrap::hand_on::hand_on! { @copy copy_in ($($inner)+) }
    };
    (@skip copy_out ($($inner:tt)+) []) => {
        $crate::wrap::hand_on::hand_on! { @copy copy_out ($($inner)+) }
    };
    (@skip fill ($($inner:tt)+) []) => {
        unsafe fn fill(
            &self,
            header: ::core::ptr::NonNull<$crate::Header<Self::Policy>>,
            offset: usize,
            len: usize,
            byte: u8,
        ) -> Result<(), $crate::TransferError> {
            // SAFETY: as the caller promises; the header is the inner backend's own.
            unsafe { self.$($inner)+.fill(header, offset, len, byte) }
        }
    };
    (@skip reaches ($($inner:tt)+) []) => {
        #[inline]
        fn reaches(&self, address: $crate::DeviceAddress, len: usize) -> bool {
            self.$($inner)+.reaches(address, len)
        }
    };
    (@skip copy_on_device ($($inner:tt)+) []) => {
        unsafe fn copy_on_device(
            &self,
            from: $crate::DeviceAddress,
            to: $crate::DeviceAddress,
            len: usize,
        ) -> Result<(), $crate::TransferError> {
            // SAFETY: as the caller promises; what this one reaches is what the inner one reaches.
            unsafe { self.$($inner)+.copy_on_device(from, to, len) }
        }
    };
    (@skip transfer_all ($($inner:tt)+) []) => {
        unsafe fn transfer_all(
            &self,
            direction: $crate::IoDirection,
            pieces: &mut dyn Iterator<Item = $crate::Piece>,
        ) -> Result<(), $crate::PieceError> {
            // SAFETY: as the caller promises; what this one reaches is what the inner one reaches.
            unsafe { self.$($inner)+.transfer_all(direction, pieces) }
        }
    };

    (@hook $hook:ident ($($inner:tt)+)) => {
        unsafe fn $hook(
            &self,
            header: ::core::ptr::NonNull<$crate::Header<Self::Policy>>,
            offset: usize,
            len: usize,
            direction: $crate::IoDirection,
        ) {
            // SAFETY: as the caller promises; the header is the inner backend's own.
            unsafe { self.$($inner)+.$hook(header, offset, len, direction) }
        }
    };
    (@copy $copy:ident ($($inner:tt)+)) => {
        unsafe fn $copy(
            &self,
            header: ::core::ptr::NonNull<$crate::Header<Self::Policy>>,
            offset: usize,
            host: ::core::ptr::NonNull<u8>,
            len: usize,
        ) -> Result<(), $crate::TransferError> {
            // SAFETY: as the caller promises; the header is the inner backend's own.
            unsafe { self.$($inner)+.$copy(header, offset, host, len) }
        }
    };
}
pub(crate) use hand_on;
