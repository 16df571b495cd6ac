//! Alignments as types, because `repr(align)` takes no const parameter.

mod sealed {
    pub trait Sealed {}
}

/// The alignment of a [`StaticPool`](crate::StaticPool)'s payloads.
pub trait Alignment: sealed::Sealed + 'static {
    /// In bytes; a power of two.
    const BYTES: usize;
}

macro_rules! alignments {
    ($($name:ident = $bytes:literal, $what:literal;)*) => {$(
        #[doc = concat!("Payloads aligned to ", $bytes, ": ", $what, ".")]
        #[derive(Clone, Copy, Debug)]
        #[repr(align($bytes))]
        pub struct $name;
        impl sealed::Sealed for $name {}
        impl Alignment for $name {
            const BYTES: usize = align_of::<Self>();
        }
    )*};
}

alignments! {
    Align1 = 1, "packed";
    Align2 = 2, "half words";
    Align4 = 4, "words";
    Align8 = 8, "double words, the default";
    Align16 = 16, "SIMD registers of 128 bits";
    Align32 = 32, "a cache line of Cortex-M7";
    Align64 = 64, "a cache line of Cortex-A and x86-64";
    Align128 = 128, "a pair of lines, as some prefetchers fetch them";
    Align256 = 256, "bursts of AXI";
    Align512 = 512, "sectors";
    Align1024 = 1024, "descriptor rings that ask for it";
    Align2048 = 2048, "tables of a device that ask for it";
    Align4096 = 4096, "pages";
}
