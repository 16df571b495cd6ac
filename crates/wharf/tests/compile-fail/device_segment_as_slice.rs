//! Pitfall: device memory is handed to a function that wants a host slice.
//! Instead: copy it to the host with `read`, and hand that over.

use std::sync::Arc;
use wharf::prelude::*;
use wharf_softdma::Channel;

fn checksum(bytes: impl AsRef<[u8]>) -> u8 {
    bytes.as_ref().iter().fold(0, |sum, byte| sum ^ byte)
}

fn send(segment: Segment<Arc<Channel>>) -> u8 {
    checksum(segment)
}

fn main() {
    let _ = send;
}
