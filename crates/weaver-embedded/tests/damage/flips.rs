//! Flipped bytes, anywhere: the same data, or a refusal that names the file. Never other data, never less.

use weaver_testkit::sample::sample;

use crate::harness::{Fate, Images, fate, images};
use crate::support::ram::RamMedium;
use crate::support::rng::Rng;

const PAGE_BYTES: usize = 4096;
/// The part of the first page that is written.
const HEADER_BYTES: usize = 328;

/// Flips of a file, and how many of them the ordinary test run makes.
const FLIPS: usize = 2000;
const SAMPLE: usize = 400;

/// Outcomes of all the flips of a test.
#[derive(Debug, Default)]
struct Tally {
    same: u32,
    refused: u32,
    broken: Vec<String>,
}

impl Tally {
    fn flip(&mut self, image: &[u8], images: &Images, offset: usize, mask: u8) {
        let mut bytes = image.to_vec();
        bytes[offset] ^= mask;
        let medium = RamMedium::with(bytes);
        match fate(&medium, &images.contents) {
            Ok(Fate::Same) => self.same += 1,
            Ok(Fate::Refused) => {
                self.refused += 1;
                self.flip_back(&medium, images, offset, mask);
            }
            Err(error) => self.broken.push(format!("byte {offset} ^ {mask:#04x}: {error}")),
        }
    }

    /// A refusal loses nothing: with the byte as it was, everything is there again.
    fn flip_back(&mut self, medium: &RamMedium, images: &Images, offset: usize, mask: u8) {
        if !self.refused.is_multiple_of(20) {
            return;
        }
        let mut bytes = medium.bytes();
        bytes[offset] ^= mask;
        if fate(&RamMedium::with(bytes), &images.contents) != Ok(Fate::Same) {
            self.broken.push(format!("byte {offset} ^ {mask:#04x}: the refusal changed the file"));
        }
    }

    /// Two flips of five are refused at least, or the flips miss what is stored.
    fn hits_something(&self) {
        assert!(
            5 * self.refused > 2 * (self.same + self.refused),
            "most flips should hit something: {self:?}"
        );
    }

    fn check(&self) {
        assert!(self.broken.is_empty(), "{} broken:\n{}", self.broken.len(), self.broken.join("\n"));
    }
}

/// Single flips of the pages in use (most) and of the whole file.
fn flip_at_random(image: &[u8], images: &Images, seed: u64) -> Tally {
    let chosen = sample(&format!("flips of seed {seed}"), FLIPS, SAMPLE);
    let mut rng = Rng::new(seed);
    let used: Vec<usize> = (0..image.len() / PAGE_BYTES).filter(|page| is_used(image, *page)).collect();
    let mut tally = Tally::default();
    for index in 0..FLIPS {
        let offset = if rng.percent(85) {
            let page = *rng.pick(&used).expect("a store has pages");
            page * PAGE_BYTES + rng.below(PAGE_BYTES as u64) as usize
        } else {
            rng.below(image.len() as u64) as usize
        };
        // Drawn for every flip, so that an index is the same flip in each sample.
        let mask = 1 << rng.below(8);
        if chosen.binary_search(&index).is_ok() {
            tally.flip(image, images, offset, mask);
        }
    }
    tally
}

fn is_used(image: &[u8], page: usize) -> bool {
    image[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].iter().any(|byte| *byte != 0)
}

#[test]
fn a_flipped_byte_in_a_clean_file_is_refused_or_does_no_harm() {
    let images = images();
    let tally = flip_at_random(&images.clean, &images, 1);
    tally.check();
    tally.hits_something();
}

#[test]
fn a_flipped_byte_in_an_unclean_file_is_refused_or_does_no_harm() {
    let images = images();
    let tally = flip_at_random(&images.unclean, &images, 2);
    tally.check();
    tally.hits_something();
}

#[test]
fn any_flipped_bit_of_the_header_is_refused_or_does_no_harm() {
    let images = images();
    for image in [&images.clean, &images.unclean] {
        let mut tally = Tally::default();
        for bit in 0..HEADER_BYTES * 8 {
            // Every bit of the flags, which have our checksum; of the slots, which have redb's, one bit of
            // each byte.
            if !(64 * 8..320 * 8).contains(&bit) || bit % 8 == bit / 8 % 8 {
                tally.flip(image, &images, bit / 8, 1 << (bit % 8));
            }
        }
        tally.check();
        assert!(tally.refused >= (64 + 8) * 8, "the flags and their checksum are guarded: {tally:?}");
    }
}

#[test]
fn the_rest_of_the_first_page_is_ignored() {
    let images = images();
    for image in [&images.clean, &images.unclean] {
        let mut bytes = image.clone();
        bytes[HEADER_BYTES..PAGE_BYTES].fill(0xA5);
        assert_eq!(fate(&RamMedium::with(bytes), &images.contents), Ok(Fate::Same));
    }
}
