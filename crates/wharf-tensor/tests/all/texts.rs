//! What the errors say: the names and numbers that somebody needs who reads nothing but the log.

use wharf_backend::{AllocError, Heap, TransferError};
use wharf_engine::{DescriptorError, Fault, SubmitError};
use wharf_source::HeapSource;
use wharf_sync::Unsync;
use wharf_tensor::{LaunchError, Parts, StorageId, Tensor, TensorError, WaitError};

type Target = Parts<Heap<Unsync>, HeapSource>;

/// The name of a storage, and what it is called in a text.
fn named() -> (StorageId, String) {
    let target = Target::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 1).unwrap();
    let storage = tensor.storage_id().unwrap();
    (storage, format!("storage {:#x}", storage.get()))
}

#[test]
fn a_storage_is_named_by_its_number() {
    let (storage, name) = named();
    assert_ne!(storage.get(), 0);
    assert_eq!(storage.to_string(), name);
}

#[test]
fn an_error_of_a_tensor_names_the_storage_and_the_numbers() {
    let (storage, name) = named();
    let said = |error: TensorError| error.to_string();
    assert_eq!(said(TensorError::NoStorage), "the tensor is empty");
    let (offset, len, size) = (3, 8, 10);
    assert_eq!(
        said(TensorError::OutOfBounds { offset, len, size }),
        "8 bytes at 3 leave a tensor of 10"
    );
    let (destination, source) = (6, 5);
    assert_eq!(
        said(TensorError::LengthMismatch {
            destination,
            source
        }),
        "5 bytes do not fill 6"
    );
    assert_eq!(
        said(TensorError::Unaligned {
            at: 40,
            alignment: 32
        }),
        "a cut at 40 is not at a multiple of 32"
    );
    let (reads, writes) = (2, 1);
    let in_flight = TensorError::InFlight {
        storage,
        reads,
        writes,
    };
    let busy = TensorError::Busy { storage, limit: 63 };
    for (error, text) in [
        (TensorError::ReadOnly { storage }, "@ is read-only memory"),
        (
            TensorError::NotReadOnly { storage },
            "@ is not read-only memory",
        ),
        (
            TensorError::Held { storage, others: 1 },
            "somebody else holds @, too",
        ),
        (
            TensorError::Held { storage, others: 3 },
            "3 others hold @, too",
        ),
        (
            TensorError::Part {
                storage,
                whole: storage,
                at: 32,
            },
            "@ is a part of @, from 32 on",
        ),
        (TensorError::WouldBlock { storage }, "@ is in use"),
        (
            TensorError::WouldDeadlock { storage },
            "@ is in use, and nobody is left to end it",
        ),
        (
            TensorError::Guarded { storage },
            "a host guard is held on @",
        ),
        (TensorError::Split { storage }, "@ is split into parts"),
        (
            in_flight,
            "@ is in use by 2 device reads and 1 device writes",
        ),
        (
            TensorError::Placeholder { storage },
            "@ is a placeholder without bytes",
        ),
        (
            busy,
            "63 accesses of this kind are under way on @, no more fit",
        ),
        (
            TensorError::TimedOut { storage },
            "@ was in use until the deadline",
        ),
        (
            TensorError::NoClock { storage },
            "no deadline for @: its clock does not tell the time",
        ),
        (
            TensorError::NotHostAddressable { storage },
            "@ is in device memory, which the CPU does not address",
        ),
    ] {
        assert_eq!(said(error), text.replace('@', &name));
    }
}

#[test]
fn what_others_refused_is_told_in_their_words() {
    let refusal = AllocError::TooLarge {
        requested: 70,
        max: 64,
    };
    let closed = TransferError::Closed;
    let (alloc, transfer) = (TensorError::from(refusal), TensorError::from(closed));
    assert_eq!(alloc, TensorError::Alloc(refusal));
    assert_eq!(transfer, TensorError::Transfer(closed));
    assert_eq!(alloc.to_string(), refusal.to_string());
    assert_eq!(transfer.to_string(), closed.to_string());

    let many = DescriptorError::TooManyOperands { operands: 9 };
    let full = SubmitError::QueueFull { slots: 4 };
    let (descriptor, submit) = (LaunchError::from(many), LaunchError::from(full));
    assert_eq!(descriptor, LaunchError::Descriptor(many));
    assert_eq!(submit, LaunchError::Submit(full));
    assert_eq!(descriptor.to_string(), many.to_string());
    assert_eq!(submit.to_string(), full.to_string());
    let (operand, error) = (2, TensorError::NoStorage);
    assert_eq!(
        LaunchError::Operand { operand, error }.to_string(),
        "operand 2: the tensor is empty"
    );

    let fault = Fault::Aborted;
    assert_eq!(WaitError::from(fault), WaitError::Fault(fault));
    assert_eq!(WaitError::from(fault).to_string(), fault.to_string());
}

#[test]
fn a_wait_without_success_says_why() {
    for (error, text) in [
        (
            WaitError::WouldDeadlock,
            "nobody is left to finish the submission",
        ),
        (WaitError::TimedOut, "the submission did not end in time"),
        (
            WaitError::NoClock,
            "no clock tells the time, so no deadline can be kept",
        ),
        (
            WaitError::Taken,
            "how the submission ended was told already",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
