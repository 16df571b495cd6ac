//! The sizes of types, as the sizes of symbols: what a target's `size_of` says, for who cannot run there.
#![cfg_attr(target_os = "none", no_std, no_main)]

use wharf_bench::types;

macro_rules! weigh {
    ($($name:ident)*) => {
        $(
            #[cfg_attr(target_os = "none", unsafe(no_mangle))]
            static $name: [u8; types::$name] = [1; types::$name];
        )*

        /// Keeps them in the image.
        #[cfg_attr(target_os = "none", unsafe(no_mangle))]
        fn _start() {
            $(core::hint::black_box(&$name);)*
        }
    };
}

weigh!(HEADER_UNSYNC HEADER_CRITICAL WITH_UNIQUE WITH_SHARED WITH_ERASED);

#[cfg(not(target_os = "none"))]
fn main() {
    _start();
    wharf_bench::image::explain();
}
