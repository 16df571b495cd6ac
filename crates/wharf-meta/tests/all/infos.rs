//! Names and descriptions.

use std::collections::HashMap;

use proptest::prelude::*;
use wharf_meta::{
    DType, InfoError, ModelError, ModelTensors, NAME_MAX, Name, NameTooLong, Shape, ShapeError,
    ShortName, TensorInfo, Usage,
};

#[test]
fn names_of_255_bytes_are_kept_and_of_256_refused() {
    let longest = "n".repeat(NAME_MAX);
    assert_eq!(Name::new(&longest).unwrap().as_str(), longest);
    let refused = Name::new(&format!("{longest}n"));
    assert_eq!(refused, Err(NameTooLong { len: 256 }));
    let refused = Name::new(&"x".repeat(64 << 10)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a name of 65536 bytes, at most 255 are kept"
    );
    assert_eq!(Name::new("").unwrap().as_str(), "");
    assert_eq!(size_of::<Name>(), 256);
}

#[test]
fn a_name_can_be_looked_up_by_its_text() {
    let name = Name::new("layer/0\0ä").unwrap();
    let map = HashMap::from([(name, 7)]);
    assert_eq!(map.get("layer/0\0ä"), Some(&7));
    assert_eq!(map.get("layer/0"), None);
    let [a, ab] = ["a", "ab"].map(|text| Name::new(text).unwrap());
    assert!(a < ab && a != ab && a == Name::new("a").unwrap());
    assert!(a == *"a" && a != *"ab");
    assert_eq!((a.as_ref(), &*ab), ("a", "ab"));
    // As a text it is padded as one.
    assert_eq!(format!("{a:>3}|{ab:<3}|"), "  a|ab |");
}

#[test]
fn errors_carry_62_bytes_of_a_name_and_its_length() {
    let whole = ShortName::new(&"k".repeat(62));
    assert_eq!((whole.as_str().len(), whole.is_cut()), (62, false));
    let cut = ShortName::new(&"k".repeat(63));
    assert_eq!(
        (cut.as_str().len(), cut.is_cut(), cut.full_len()),
        (62, true, 63)
    );
    assert_eq!(cut.to_string(), format!("`{}…` (63 bytes)", "k".repeat(62)));
    // A character of two bytes across the cut goes whole.
    let cut = ShortName::new(&format!("{}ä", "k".repeat(61)));
    assert_eq!(cut.as_str(), "k".repeat(61));
    // What would move a cursor is shown instead.
    assert_eq!(ShortName::new("a\x1b[2J\n").to_string(), "`a\\u{1b}[2J\\n`");
}

const IMAGE: TensorInfo = match TensorInfo::input("image", DType::U8, &[1, 8, 8]) {
    Ok(info) => info,
    Err(_) => panic!(),
};

#[test]
fn a_description_can_be_a_constant_and_counts_its_bytes() {
    assert_eq!(
        (IMAGE.name().as_str(), IMAGE.usage(), IMAGE.size()),
        ("image", Usage::In, 64)
    );
    assert_eq!(
        (IMAGE.dtype(), IMAGE.shape().axes()),
        (DType::U8, &[1, 8, 8][..])
    );
    let opaque = TensorInfo::opaque("state", Usage::Out, 4097).unwrap();
    assert_eq!((opaque.dtype(), opaque.size()), (DType::Unknown, 4097));
    assert_eq!(*opaque.shape(), [4097]);
    assert_eq!((Usage::In.number(), Usage::Out.number()), (0, 1));
    assert_eq!(format!("{}, {}", Usage::In, Usage::Out), "input, output");
}

#[test]
fn a_description_that_cannot_be_is_refused() {
    let refused = TensorInfo::output("x", DType::Unknown, &[4]);
    assert_eq!(refused, Err(InfoError::Shape(ShapeError::Unsized)));
    assert_eq!(
        refused.unwrap_err().to_string(),
        ShapeError::Unsized.to_string()
    );
    let refused = TensorInfo::output("x", DType::U8, &[1; 9]);
    assert_eq!(refused, Err(InfoError::Shape(ShapeError::Rank { rank: 9 })));
    let shape = Shape::new(&[usize::MAX]).unwrap();
    assert_eq!(
        TensorInfo::output("x", DType::F32, &[usize::MAX]),
        Err(InfoError::Shape(ShapeError::TooLarge { shape, size: 4 }))
    );
    let long = "x".repeat(300);
    let refused = TensorInfo::opaque(&long, Usage::In, 1);
    assert_eq!(refused, Err(InfoError::Name(NameTooLong { len: 300 })));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "a name of 300 bytes, at most 255 are kept"
    );
}

fn opaque(name: &str, usage: Usage) -> TensorInfo {
    TensorInfo::opaque(name, usage, 1).unwrap()
}

#[test]
fn a_model_has_its_inputs_first_and_each_name_once_a_usage() {
    let (input, output) = (|n| opaque(n, Usage::In), |n| opaque(n, Usage::Out));
    let infos = [input("a"), input("b"), output("a"), output("c")];
    let model = ModelTensors::new(&infos).unwrap();
    assert_eq!(
        (model.inputs().len(), model.outputs().len(), model.len()),
        (2, 2, 4)
    );
    // The same name on both sides is two tensors.
    assert_eq!(model.input("a").unwrap().usage(), Usage::In);
    assert_eq!(model.output("a").unwrap().usage(), Usage::Out);
    assert_eq!(model.input("c").unwrap_err().name.as_str(), "c");
    assert!(model.output("b").is_err());
    assert!(model.iter().eq(&infos));
    assert!(!model.is_empty());
    let one_sided = ModelTensors::new(&infos[..2]).unwrap();
    assert_eq!((one_sided.len(), one_sided.is_empty()), (2, false));

    let behind = [input("a"), output("b"), input("c")];
    let refused = ModelTensors::new(&behind).unwrap_err();
    assert_eq!(refused, ModelError::InputBehindOutput { index: 2 });
    let twice = [input("a"), output("x"), output("y"), output("x")];
    let refused = ModelTensors::new(&twice).unwrap_err();
    assert_eq!(
        refused,
        ModelError::NameTwice {
            first: 1,
            second: 3
        }
    );
    assert_eq!(
        [ModelError::InputBehindOutput { index: 2 }, refused].map(|error| error.to_string()),
        [
            "tensor 2 is an input and stands behind an output",
            "tensors 1 and 3 have one name"
        ]
    );
    // A name is not its beginning.
    assert!(ModelTensors::new(&[input("a"), input("ab"), input("")]).is_ok());
    assert!(ModelTensors::new(&[]).unwrap().is_empty());
}

proptest! {
    #[test]
    fn any_text_up_to_the_limit_comes_back(text in ".{0,90}") {
        prop_assume!(text.len() <= NAME_MAX);
        let name = Name::new(&text).unwrap();
        prop_assert_eq!(name.as_str(), &text);
        prop_assert_eq!(Ok(name), text.parse::<Name>());
        let short = ShortName::new(&text);
        prop_assert!(text.starts_with(short.as_str()));
        // No more than a character is missing.
        prop_assert!(short.as_str().len() > 62 - 4 || !short.is_cut());
        prop_assert!(!short.to_string().chars().any(char::is_control));
    }

    #[test]
    fn putting_inputs_first_keeps_each_sides_order(usages in prop::collection::vec(any::<bool>(), 0..12)) {
        let mut infos: Vec<TensorInfo> = usages
            .iter()
            .enumerate()
            .map(|(i, &input)| opaque(&i.to_string(), if input { Usage::In } else { Usage::Out }))
            .collect();
        let side = |usage| infos.iter().filter(move |info| info.usage() == usage).copied();
        let expected: Vec<TensorInfo> = side(Usage::In).chain(side(Usage::Out)).collect();
        ModelTensors::inputs_first(&mut infos);
        prop_assert_eq!(&infos, &expected);
        prop_assert!(ModelTensors::new(&infos).is_ok());
    }
}
