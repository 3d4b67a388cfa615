//! Objects of candidates: in a directory of this process, with the repository's objects as an alternate.
//!
//! No ref points to a candidate, so `git gc` would remove it from the repository while its checks run. Here
//! nothing does, and the repository gets only what lands. Another process, or this one after a restart,
//! builds a candidate again: the same request makes the same objects.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::view::{OBJECTS, replace};

/// Candidates before new ones go to a new directory. The previous directory stays readable; older ones are
/// removed, so that a server that runs for months does not fill the disk.
pub(super) const CANDIDATES_MAX: u32 = 500;

/// What is here can be built again: it need not survive a power failure.
pub(super) const CONFIG: &str = "[core]\n\tfsync = none\n";

/// The git directory of one generation.
pub(super) fn path(receiver: &Path, generation: u32) -> PathBuf {
    let mut path = receiver.as_os_str().to_owned();
    path.push(format!("-{generation}"));
    path.into()
}

/// Creates the objects of a generation, and removes those of the generation before the previous one.
pub(super) fn write(view: &Path, receiver: &Path, git_dir: &Path, generation: u32) -> io::Result<()> {
    let repository = git_dir.join(OBJECTS);
    let Some(before) = generation.checked_sub(1) else { return alternates(view, &[repository]) };
    let previous = path(receiver, before);
    // It loses its own previous generation, which is removed below.
    alternates(&previous, std::slice::from_ref(&repository))?;
    alternates(view, &[repository, previous.join(OBJECTS)])?;
    if let Some(old) = generation.checked_sub(2) {
        // Links and objects. What cannot be removed now is removed with the directory of this process.
        let _ = fs::remove_dir_all(path(receiver, old));
    }
    Ok(())
}

fn alternates(view: &Path, directories: &[PathBuf]) -> io::Result<()> {
    let info = view.join(OBJECTS).join("info");
    fs::create_dir_all(&info)?;
    let lines = directories.iter().map(|directory| line(directory)).collect::<io::Result<Vec<_>>>()?;
    replace(&info.join("alternates"), &lines.concat())
}

/// A line of `objects/info/alternates`. Git unquotes one that begins with a quotation mark, and skips one that
/// begins with `#`; an absolute path begins with neither. It may not contain a line break.
fn line(directory: &Path) -> io::Result<Vec<u8>> {
    let bytes = directory.as_os_str().as_encoded_bytes();
    if bytes.contains(&b'\n') {
        return Err(io::Error::other("the path of the repository contains a line break"));
    }
    Ok([bytes, b"\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_previous_generation_of_candidates_is_an_alternate_and_older_ones_are_removed() {
        let root = std::env::temp_dir().join(format!("weaver-private-{}", std::process::id()));
        let (git_dir, receiver) = (root.join("repo.git"), root.join("view"));
        for generation in 0..3 {
            write(&path(&receiver, generation), &receiver, &git_dir, generation).unwrap();
        }
        let newest = path(&receiver, 2).join("objects/info/alternates");
        let expected = [git_dir.join(OBJECTS), path(&receiver, 1).join(OBJECTS)];
        let expected = expected.map(|path| format!("{}\n", path.display())).concat();
        assert_eq!(fs::read_to_string(newest).unwrap(), expected);
        let before = path(&receiver, 1).join("objects/info/alternates");
        assert_eq!(fs::read_to_string(before).unwrap(), format!("{}\n", git_dir.join(OBJECTS).display()));
        assert!(!path(&receiver, 0).exists());
        assert!(line(Path::new("/a\nb")).is_err());
        fs::remove_dir_all(root).unwrap();
    }
}
