//! The real files, and the inference that everything else is compared with.

use digits::load::{OwnedModel, OwnedTestSet};
use digits::reference::classify;
use digits::{ModelBytes, image};

use crate::forge::{MODEL_FILE, TEST_FILE, crc32};

fn real() -> (OwnedModel, OwnedTestSet) {
    (
        OwnedModel::from_safetensors(MODEL_FILE).unwrap(),
        OwnedTestSet::from_safetensors(TEST_FILE).unwrap(),
    )
}

#[test]
fn accuracy_is_353_of_360_and_agreement_is_full() {
    let (model, set) = real();
    let (model, set) = (model.lend(), set.lend());
    assert_eq!(set.count(), 360);
    let answers: Vec<u8> = (0..360)
        .map(|i| classify(&model, set.image(i).unwrap()).0)
        .collect();
    assert_eq!(answers, set.expected());
    let wrong: Vec<usize> = (0..360)
        .filter(|&i| answers[i] != set.labels()[i])
        .collect();
    assert_eq!(wrong, [6, 22, 51, 199, 212, 236, 326]);
}

/// Scores worked out in double precision by another program.
#[test]
fn scores_of_two_pictures_are_as_worked_out_elsewhere() {
    let (model, set) = real();
    let worked_out = [
        // The closest call of all: a nine that is nearly a three.
        (
            0,
            9,
            [
                -5.6814, -8.8782, -4.8227, 4.9885, -13.3053, 0.9666, -14.4846, 2.4393, -8.4704,
                4.9892,
            ],
        ),
        (
            359,
            8,
            [
                -9.3749, -0.0245, -5.0734, -9.3037, -7.5525, -10.012, -4.9629, -10.5394, 5.8486,
                -3.3819,
            ],
        ),
    ];
    for (index, digit, scores) in worked_out {
        let (answer, found) = classify(&model.lend(), set.lend().image(index).unwrap());
        assert_eq!(answer, digit);
        for (found, score) in found.into_iter().zip::<[f32; 10]>(scores) {
            assert!((found - score).abs() < 1e-4, "{found} for {score}");
        }
    }
}

#[test]
fn a_model_small_enough_for_paper() {
    let mut tensors = [vec![0; 8192], vec![0; 128], vec![0; 1280], vec![0; 40]];
    let mut put = |tensor: usize, at: usize, value: f32| {
        tensors[tensor][4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
    };
    // Neuron 0 is 2 * pixel 63 + 1; neuron 1 is -pixel 63, which the rectifier takes to nothing.
    put(0, 63, 2.0);
    put(1, 0, 1.0);
    put(0, 64 + 63, -1.0);
    // Class 3 is neuron 0 / 2 + 0.25; class 4 is 100 * neuron 1; class 5 as class 3, but comes later.
    for class in [3, 5] {
        put(2, class * 32, 0.5);
        put(3, class, 0.25);
    }
    put(2, 4 * 32 + 1, 100.0);
    let [a, b, c, d] = &tensors;
    let model = ModelBytes::new(a, b, c, d).unwrap();
    let mut pixels = [16; 64];
    pixels[63] = 3;
    let scores = [0.0, 0.0, 0.0, 3.75, 0.0, 3.75, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(classify(&model, &pixels), (3, scores));
}

/// Length and checksum of the same layout made by another program.
#[test]
fn the_real_image_is_as_worked_out_elsewhere() {
    let (model, set) = real();
    let packed = image::encode(&model.lend(), &set.lend());
    assert_eq!(packed.len(), 33_472);
    assert_eq!(packed[8..12], 0xa301_7590u32.to_le_bytes());
    assert_eq!(crc32(&packed[12..]), 0xa301_7590);
    assert_eq!(image::parse(&packed), Ok((model.lend(), set.lend())));
}
