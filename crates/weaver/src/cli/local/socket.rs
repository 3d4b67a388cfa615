//! The Unix socket of a server.

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

/// A listening socket. Dropping it removes the file and its registration.
pub(crate) struct LocalSocket {
    path: PathBuf,
    /// So that another server's socket at the same path is not removed.
    inode: u64,
    places: Places,
    registration: Option<PathBuf>,
}

impl LocalSocket {
    /// Listens at `serve.socket`, or at a path made of the port. `LocalAdmins` authorizes by peer
    /// credentials; the file modes are only a first barrier.
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

    /// Lets commands of this user find the server. A failure is only logged: `--server` still works.
    pub(crate) fn register(&mut self, address: &str, store: String) {
        match Registration::new(address, &self.path, store).write(&self.places) {
            Ok(file) => self.registration = Some(file),
            Err(failure) => tracing::warn!(
                reason = %failure,
                "registering the server failed; commands need --server unix:{}",
                self.path.display()
            ),
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Best effort: commands ignore a stale socket.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(file) = &self.registration {
            let _ = fs::remove_file(file);
        }
    }
}

/// Named after the port; with the process id if that name is taken.
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

/// Listens at a path. A stale socket of a killed server is replaced; it is in use if it accepts.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_stale = matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_stale {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Changes a file's group to the admin group, if configured.
fn open_to(path: &Path, gid: Option<u32>, mode: u32) -> Result<(), Failure> {
    let Some(gid) = gid else { return Ok(()) };
    let done =
        chown(path, None, Some(gid)).and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)));
    done.map_err(|error| {
        let message =
            format!("changing the group of {} to serve.admin_group failed: {error}", path.display());
        Failure::new(Exit::Refused, message)
            .next("add the server's user to that group, or unset serve.admin_group")
    })
}

fn not_bound(path: &Path, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::AddrInUse { Exit::Busy } else { Exit::Failed };
    Failure::new(exit, format!("cannot listen on the socket {}: {error}", path.display()))
        .next("set serve.socket to another path of at most 107 bytes")
}

fn no_group(name: &str) -> Failure {
    Failure::new(Exit::Usage, format!("serve.admin_group: group `{name}` is not in /etc/group"))
        .next("create it with `groupadd`, or unset serve.admin_group")
}
