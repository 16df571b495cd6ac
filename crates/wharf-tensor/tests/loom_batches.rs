//! Batches over several storages under every interleaving (within the bounds below).
//!
//! A circle of waits is a deadlock and fails the model, as does an access beside a write.

mod models;

use loom::thread;
use models::{Model, device, explore, fresh, streams};
use wharf_tensor::{Access, Tensor, Tickets};

fn write(tensors: [&Tensor<Model>; 2], value: u8) {
    let bytes = [value; 2];
    Tensor::write_batch(&tensors.map(|tensor| tensor.write_op(0, &bytes))).unwrap();
}

/// The bytes of both, of one moment.
fn read(tensors: [&Tensor<Model>; 2]) -> [u8; 4] {
    let (mut x, mut y) = ([0; 2], [0; 2]);
    let [a, b] = tensors;
    Tensor::read_batch(&mut [a.read_op(0, &mut x), b.read_op(0, &mut y)]).unwrap();
    [x[0], x[1], y[0], y[1]]
}

#[test]
fn two_batches_in_opposite_order_do_not_wait_in_a_circle_and_are_whole() {
    explore(3, || {
        let ((_one, a), (_two, b)) = (fresh(), fresh());
        let (c, d) = (a.clone(), b.clone());
        let other = thread::spawn(move || write([&d, &c], 2));
        write([&a, &b], 1);
        let seen = read([&b, &a]);
        assert!(seen == [1; 4] || seen == [2; 4], "{seen:?}");
        other.join().unwrap();
        let seen = read([&a, &b]);
        assert!(seen == [1; 4] || seen == [2; 4], "{seen:?}");
        for tensor in [a, b] {
            assert_eq!(tensor.try_write(0, &[3; 2]), Ok(()), "nobody is left");
        }
    });
}

#[test]
fn a_batch_and_copies_the_other_way_round_do_not_wait_in_a_circle() {
    explore(2, || {
        let ((_one, a), (_two, b)) = (fresh(), fresh());
        let (c, d) = (a.clone(), b.clone());
        let copies = thread::spawn(move || {
            c.copy_from(&d).unwrap();
            d.copy_from(&c).unwrap();
        });
        write([&b, &a], 1);
        let seen = read([&a, &b]);
        assert!(seen.iter().all(|byte| [0, 1].contains(byte)), "{seen:?}");
        copies.join().unwrap();
        assert_eq!(read([&a, &b]), [1; 4]);
    });
}

#[test]
fn a_batch_and_devices_at_its_storages_both_get_on() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(2, move || {
        let ((one, a), (two, b)) = (fresh(), fresh());
        let (c, d) = (a.clone(), b.clone());
        let devices = thread::spawn(move || {
            device(&d, Access::Write, id, || two.device_writes(2));
            device(&c, Access::Write, id, || one.device_writes(2));
        });
        write([&a, &b], 1);
        let seen = read([&a, &b]);
        assert!(seen[0] == seen[1] && seen[2] == seen[3], "{seen:?}");
        devices.join().unwrap();
        assert_eq!((a.in_flight(), b.in_flight()), ((0, 0), (0, 0)));
    });
}

#[test]
fn two_drivers_that_name_their_tensors_the_other_way_round_both_get_them_all() {
    let (mine, others) = streams();
    let (mine, others) = (mine.id(), others.id());
    explore(2, move || {
        let ((one, a), (two, b)) = (fresh(), fresh());
        let (c, d) = (a.clone(), b.clone());
        let (three, four) = (one.clone(), two.clone());
        let other = thread::spawn(move || {
            let tickets = Tickets::begin(others, &[d.output(), c.output()]).unwrap();
            four.device_writes(2);
            three.device_writes(2);
            drop(tickets);
        });
        let tickets = Tickets::begin(mine, &[a.output(), b.output()]).unwrap();
        one.device_writes(1);
        two.device_writes(1);
        drop(tickets);
        let seen = read([&a, &b]);
        assert!(seen == [1; 4] || seen == [2; 4], "{seen:?}");
        other.join().unwrap();
        assert_eq!((a.in_flight(), b.in_flight()), ((0, 0), (0, 0)));
    });
}
