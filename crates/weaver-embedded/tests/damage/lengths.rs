//! Files that were truncated or grew, and torn writes.

use crate::harness::{Fate, contents, enqueue, fate, images, open_on};
use crate::support::power::PowerMedium;
use crate::support::ram::RamMedium;
use crate::support::rng::Rng;

#[test]
fn a_truncated_file_is_refused_at_any_length() {
    let images = images();
    let mut rng = Rng::new(3);
    for image in [&images.clean, &images.unclean] {
        let used = image.iter().rposition(|byte| *byte != 0).expect("a store has pages");
        // An empty one is a matter of the directory: on a medium of its own it is how a store begins.
        let mut lengths = vec![1, 8, 9, 64, 319, 320, 327, 328, 511, 512, 4095, 4096, 4097, 8192, used];
        lengths.extend((0..60).map(|_| rng.below(used as u64) as usize));
        lengths.extend((1..used / 4096).map(|page| page * 4096));
        for length in lengths {
            let fate = fate(&RamMedium::with(image[..length].to_vec()), &images.contents);
            assert_eq!(fate, Ok(Fate::Refused), "{length} of {} bytes", image.len());
        }
    }
}

#[test]
fn a_file_with_trailing_bytes_is_refused_or_keeps_everything() {
    let images = images();
    for image in [&images.clean, &images.unclean] {
        for more in [1, 100, 4096, 1 << 20] {
            let mut bytes = image.clone();
            bytes.resize(image.len() + more, 0x5A);
            fate(&RamMedium::with(bytes), &images.contents).expect("it is the same, or refused");
        }
    }
}

#[test]
fn a_torn_last_write_is_there_as_a_whole_or_not_at_all() {
    let images = images();
    let mut after = None;
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..4 {
        for calls in 0.. {
            let disk = PowerMedium::with(images.clean.clone(), seed * 1000 + calls);
            let store = open_on(disk.clone()).expect("it is whole");
            disk.cut_after(calls);
            let answer = enqueue(&store, 3000);
            if answer.is_ok() {
                break;
            }
            let store = open_on(RamMedium::with(disk.cut())).expect("it recovers on open");
            let found = contents(&store).expect("it answers");
            if found == images.contents {
                lost += 1;
            } else {
                let after = after.get_or_insert_with(|| found.clone());
                assert_eq!(found.tasks.len(), images.contents.tasks.len() + 1);
                assert_eq!(found, *after, "the task is there as a whole");
                kept += 1;
            }
        }
    }
    assert!(kept > 0 && lost > 0, "both happen: kept {kept}, lost {lost}");
}
