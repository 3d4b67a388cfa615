//! A server's socket, from its start to its end.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use weaver_server::security::{LocalAdmins, group_id};

use super::places::{Places, make_private};
use super::registration::Registration;
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

/// A socket that is listened on. Dropped, it and its registration are removed.
pub(crate) struct LocalSocket {
    path: PathBuf,
    /// Of the file, so that another server's of the same name is not removed.
    inode: u64,
    places: Places,
    registration: Option<PathBuf>,
}

impl LocalSocket {
    /// Listens, at the path of the settings or at one made of the port. `LocalAdmins` says who is let in; the
    /// modes of the files only keep others from trying.
    pub(crate) fn open(config: &Config, port: u16) -> Result<(UnixListener, LocalAdmins, Self), Failure> {
        let places = Places::of_process();
        let group = Some(config.text(keys::SERVE_ADMIN_GROUP)).filter(|name| !name.is_empty());
        let gid = group.map(|name| group_id(name).ok_or_else(|| no_group(name))).transpose()?;
        let (listener, path) = match config.path(keys::SERVE_SOCKET) {
            Some(path) => {
                let path = std::path::absolute(path).map_err(|error| Failure::io(path, &error))?;
                if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
                    make_private(parent, places.uid)?;
                    open_to(parent, gid, 0o750)?;
                }
                (bind(&path).map_err(|error| not_bound(&path, &error))?, path)
            }
            None => {
                make_private(&places.sockets, places.uid)?;
                open_to(&places.sockets, gid, 0o750)?;
                bind_free(&places.sockets, port)?
            }
        };
        let mode = if gid.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&path, Permissions::from_mode(mode))
            .map_err(|error| Failure::io(&path, &error))?;
        open_to(&path, gid, mode)?;
        let inode = fs::symlink_metadata(&path).map_err(|error| Failure::io(&path, &error))?.ino();
        let admins = LocalAdmins::new(places.uid, group.map(str::to_owned));
        Ok((listener, admins, Self { path, inode, places, registration: None }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets commands of this user find the server. One that cannot be found can still be named, so this is no
    /// reason to stop.
    pub(crate) fn register(&mut self, address: &str, store: String) {
        match Registration::new(address, &self.path, store).write(&self.places) {
            Ok(file) => self.registration = Some(file),
            Err(failure) => tracing::warn!(
                reason = %failure,
                "commands cannot find this server by themselves; name it with --server unix:{}",
                self.path.display()
            ),
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // What stays behind answers no connection, and is passed over.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(file) = &self.registration {
            let _ = fs::remove_file(file);
        }
    }
}

/// The port is unique on the machine, nearly always; where it is not, the process is.
fn bind_free(directory: &Path, port: u16) -> Result<(UnixListener, PathBuf), Failure> {
    let path = directory.join(format!("{port}.sock"));
    match bind(&path) {
        Ok(listener) => return Ok((listener, path)),
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(not_bound(&path, &error)),
        Err(_) => {}
    }
    let path = directory.join(format!("{port}-{}.sock", std::process::id()));
    let listener = bind(&path).map_err(|error| not_bound(&path, &error))?;
    Ok((listener, path))
}

/// Listens at a path. One that a killed server left behind is taken over; it is in use if it answers.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_left = matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_left {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Gives a file to the admin group, if there is one.
fn open_to(path: &Path, gid: Option<u32>, mode: u32) -> Result<(), Failure> {
    let Some(gid) = gid else { return Ok(()) };
    let done =
        chown(path, None, Some(gid)).and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)));
    done.map_err(|error| {
        let message = format!("{} cannot be opened to serve.admin_group: {error}", path.display());
        Failure::new(Exit::Refused, message)
            .next("make the server's user a member of that group, or leave it out")
    })
}

fn not_bound(path: &Path, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::AddrInUse { Exit::Busy } else { Exit::Failed };
    Failure::new(exit, format!("cannot listen on the socket {}: {error}", path.display()))
        .next("choose another path, of at most 107 bytes, with serve.socket")
}

fn no_group(name: &str) -> Failure {
    Failure::new(Exit::Usage, format!("serve.admin_group: there is no group `{name}` in /etc/group"))
        .next("make it with `groupadd`, or leave the setting out")
}
