//! Pitfall: a segment that borrows its backend is stored where it may outlive it.
//! Instead: hold the backend by `&'static` (a pool in a `static`) or by `Arc`.

use wharf::prelude::*;

type Pool = StaticPool<Unsync, 64, 4>;

struct Inbox(Vec<Segment<&'static Pool>>);

fn receive(inbox: &mut Inbox) {
    let pool = Pool::new();
    let frame = pool.alloc(8).unwrap().filled(0).unwrap();
    inbox.0.push(Segment::from(frame));
}

fn main() {
    receive(&mut Inbox(Vec::new()));
}
