//! Bytes of images for bare metal: their functions, and the sizes of types that they carry as the sizes
//! of symbols, both read from the linked file.

use std::collections::BTreeMap;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::figures::table::{Row, Section};
use crate::figures::{PACKAGE, build};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The profile of the images, and so the folder that they are in.
const PROFILE: &str = "size";

/// An image that is weighed, what it does, and the goals on a Cortex-M0 and on rv32.
type Weighed = (&'static str, &'static str, [Option<u64>; 2]);

/// For every core.
const WEIGHED: [Weighed; 4] = [
    (
        "size-static-unsync",
        "StaticPool<Unsync>: alloc, drop, refusal",
        [Some(280), Some(320)],
    ),
    (
        "size-static-critical",
        "StaticPool<Critical>: alloc, drop, refusal",
        [Some(320), Some(460)],
    ),
    (
        "size-slab-unsync",
        "PoolBackend<Unsync>: construct, alloc, drop, refusal",
        [Some(280), Some(320)],
    ),
    (
        "size-slab-critical",
        "PoolBackend<Critical>: construct, alloc, drop, refusal",
        [Some(320), Some(460)],
    ),
];

/// For cores with compare-and-swap.
const WEIGHED_SPIN: [Weighed; 1] = [(
    "size-slab-spin",
    "PoolBackend<SpinMulticore>: construct, alloc, drop, refusal",
    [None, Some(460)],
)];

/// The image of which the symbols are as large as types.
const TYPES_IMAGE: &str = "size-types";

/// The types: their symbols, what they are, and the goal in words of the target.
const TYPES: [(&str, &str, u64); 5] = [
    ("HEADER_UNSYNC", "header, Unsync", 2),
    ("HEADER_CRITICAL", "header, Critical", 2),
    ("WITH_UNIQUE", "header + SegmentMut<&Pool>", 5),
    ("WITH_SHARED", "header + Segment<&Pool>", 5),
    ("WITH_ERASED", "header + Segment<&dyn MemBackend>", 5),
];

/// A function or a static of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Symbol {
    name: String,
    address: u64,
    size: u64,
    is_function: bool,
}

/// Builds the images for one target, and weighs them.
pub(crate) fn measure(
    workspace: &Workspace,
    toolchain: &Toolchain,
    triple: &str,
) -> Result<Vec<Section>, String> {
    let is_riscv = triple.starts_with("riscv");
    let features = if is_riscv { "size-spin" } else { "size" };
    let mut command = toolchain.cargo(workspace, "build");
    command.args(["--profile", PROFILE, "-p", PACKAGE]);
    // An incremental build is cut into other units, and weighs otherwise.
    command.env("CARGO_INCREMENTAL", "0");
    build(command.args(["--features", features, "--bins"]))?;
    let read = |image: &str| {
        let path = toolchain.image_of(workspace, PROFILE, image);
        let file = std::fs::read(path).map_err(|error| format!("{image}: {error}"))?;
        symbols(&file).map_err(|error| format!("{image}: {error}"))
    };

    let mut text = Vec::new();
    let spinning = WEIGHED_SPIN.iter().filter(|_| is_riscv);
    for (image, about, goals) in WEIGHED.iter().chain(spinning) {
        let goal = goals[usize::from(is_riscv)];
        text.push(weigh(about, &read(image)?, goal));
    }
    let sizes = read(TYPES_IMAGE)?
        .into_iter()
        .map(|symbol| (symbol.name, symbol.size))
        .collect();
    let compiler = toolchain.compiler(workspace);
    let section = |kind, rows| Section {
        kind,
        unit: "bytes",
        target: triple.to_owned(),
        compiler: compiler.clone(),
        rows,
    };
    Ok(vec![
        section("text", text),
        section("types", types(&sizes, 4)?),
    ])
}

/// The sizes of all types, by their symbols, where a word has `word` bytes.
pub(crate) fn types(sizes: &BTreeMap<String, u64>, word: u64) -> Result<Vec<Row>, String> {
    let row = |(symbol, about, words): (&str, &str, u64)| {
        let size = sizes.get(symbol);
        Ok(Row {
            name: about.to_owned(),
            value: *size.ok_or_else(|| format!("the size of {symbol} is not there"))?,
            goal: Some(words * word),
            ..Row::default()
        })
    };
    TYPES.into_iter().map(row).collect()
}

/// Adds the functions up that are wharf's doing: all but the panic handler and the implementation of
/// critical sections, which every program has already.
fn weigh(about: &str, symbols: &[Symbol], goal: Option<u64>) -> Row {
    let is_harness = |symbol: &&Symbol| {
        symbol.name.contains("rust_begin_unwind")
            || symbol.name.starts_with("_critical_section_1_0_")
    };
    // Several names of one function count once.
    let functions: BTreeMap<u64, &Symbol> = symbols
        .iter()
        .filter(|symbol| symbol.is_function && !is_harness(symbol))
        .map(|symbol| (symbol.address, symbol))
        .collect();
    let runtime = functions.values().filter(|symbol| is_runtime(&symbol.name));
    let runtime: u64 = runtime.map(|symbol| symbol.size).sum();
    Row {
        name: about.to_owned(),
        value: functions.values().map(|symbol| symbol.size).sum(),
        goal,
        note: match runtime {
            0 => String::new(),
            bytes => format!("with {bytes} of the compiler's runtime"),
        },
        ..Row::default()
    }
}

/// Whether a function is of the compiler's runtime library, which the linker adds.
fn is_runtime(name: &str) -> bool {
    name.starts_with("__") || name.starts_with("mem") || name.contains("compiler_builtins")
}

/// The functions and statics of a linked file.
fn symbols(file: &[u8]) -> Result<Vec<Symbol>, object::Error> {
    let file = object::File::parse(file)?;
    let mut symbols = Vec::new();
    for symbol in file.symbols() {
        let is_function = symbol.kind() == SymbolKind::Text;
        let is_static = symbol.kind() == SymbolKind::Data;
        if (is_function || is_static) && symbol.is_definition() && symbol.size() > 0 {
            symbols.push(Symbol {
                name: symbol.name()?.to_owned(),
                address: symbol.address(),
                size: symbol.size(),
                is_function,
            });
        }
    }
    Ok(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, address: u64, size: u64) -> Symbol {
        Symbol {
            name: name.to_owned(),
            address,
            size,
            is_function: true,
        }
    }

    #[test]
    fn what_every_program_has_is_not_weighed() {
        let table = Symbol {
            is_function: false,
            ..function("TABLE", 0x100, 64)
        };
        let symbols = [
            function("_start", 0x200, 100),
            function("alias_of_start", 0x200, 100),
            function("__aeabi_memclr4", 0x300, 58),
            function("_ZN17compiler_builtins3mem6memset17h0E", 0x340, 4),
            function("_RNvCs1_7___rustc17rust_begin_unwind", 0x400, 2),
            function("_critical_section_1_0_acquire", 0x500, 12),
            table,
        ];
        let row = weigh("x", &symbols, Some(161));
        assert_eq!(row.value, 162);
        assert_eq!(row.note, "with 62 of the compiler's runtime");
        assert_eq!(weigh("x", &symbols[..2], None).note, "");
    }

    #[test]
    fn goals_of_types_are_in_words() {
        let sizes = TYPES.map(|(symbol, _, words)| (symbol.to_owned(), words * 4));
        let sizes = BTreeMap::from(sizes);
        let rows = types(&sizes, 4).unwrap();
        let goals: Vec<_> = rows.iter().map(|row| row.goal.unwrap()).collect();
        assert_eq!(goals, [8, 8, 20, 20, 20]);
        let error = types(&BTreeMap::new(), 4).unwrap_err();
        assert_eq!(error, "the size of HEADER_UNSYNC is not there");
    }

    #[test]
    fn a_file_that_is_no_image_is_refused() {
        assert!(symbols(b"").is_err());
        assert!(symbols(b"\x7fELF\x01\x01\x01 and then nothing").is_err());
    }

    /// An image for a 32-bit core, written by hand: a function, a static, and what is undefined.
    #[test]
    fn symbols_are_read_from_elf() {
        let names = b"\0_start\0TABLE\0extern\0";
        let mut file = b"\x7fELF\x01\x01\x01".to_vec();
        file.resize(16, 0);
        let half = |file: &mut Vec<u8>, n: u16| file.extend(n.to_le_bytes());
        let word = |file: &mut Vec<u8>, n: u32| file.extend(n.to_le_bytes());
        // An executable for Arm, its sections after the header, the symbols, and the names.
        half(&mut file, 2);
        half(&mut file, 40);
        for n in [1, 0x100, 0, 52 + 4 * 16 + 24, 0x0500_0000] {
            word(&mut file, n);
        }
        for n in [52, 32, 0, 40, 4, 2] {
            half(&mut file, n);
        }
        // Name, value, size, kind with binding, visibility, section.
        let symbols = [
            (0, 0, 0, 0, 0),
            (1, 0x101, 100, 0x12, 3),
            (8, 0x180, 16, 0x11, 3),
            (14, 0, 8, 0x12, 0),
        ];
        for (name, value, size, info, section) in symbols {
            word(&mut file, name);
            word(&mut file, value);
            word(&mut file, size);
            file.extend([info, 0]);
            half(&mut file, section);
        }
        file.extend(names);
        file.resize(52 + 4 * 16 + 24, 0);
        // Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
        let sections: [[u32; 10]; 4] = [
            [0; 10],
            [0, 2, 0, 0, 52, 4 * 16, 2, 1, 4, 16],
            [0, 3, 0, 0, 52 + 4 * 16, 22, 0, 0, 1, 0],
            [0, 1, 6, 0x100, 0, 0, 0, 0, 4, 0],
        ];
        for number in sections.as_flattened() {
            word(&mut file, *number);
        }

        let symbols = super::symbols(&file).unwrap();
        let read: Vec<_> = symbols
            .iter()
            .map(|symbol| (symbol.name.as_str(), symbol.size, symbol.is_function))
            .collect();
        assert_eq!(read, [("_start", 100, true), ("TABLE", 16, false)]);
    }
}
