//! Peeking at the first bytes of a waiting connection, to recognize requests for health and login.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The longest prefix below, the byte after it, and a margin.
const PEEK_BYTES: usize = 16;
/// Requests that have places of their own.
const BEGINNINGS: [&str; 7] = [
    "GET /healthz",
    "HEAD /healthz",
    "GET /readyz",
    "HEAD /readyz",
    "GET /login",
    "POST /login",
    "GET /assets",
];

/// A connection whose peeked bytes are returned again by the first reads.
pub(super) struct Prefixed<Io> {
    io: Io,
    seen: [u8; PEEK_BYTES],
    seen_to: usize,
    read_to: usize,
}

impl<Io: AsyncRead + Unpin> Prefixed<Io> {
    pub(super) fn new(io: Io) -> Self {
        Self { io, seen: [0; PEEK_BYTES], seen_to: 0, read_to: 0 }
    }

    /// Returns when the first bytes are a request for health or login, otherwise never. Cancel safe.
    pub(super) async fn asks_for_health(&mut self) {
        while self.seen_to < PEEK_BYTES {
            match self.io.read(&mut self.seen[self.seen_to..]).await {
                Ok(read) if read > 0 => self.seen_to += read,
                // Closed or failed: the next read reports it.
                _ => break,
            }
            if is_health(&self.seen[..self.seen_to]) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

fn is_health(bytes: &[u8]) -> bool {
    BEGINNINGS.iter().any(|beginning| {
        let rest = bytes.strip_prefix(beginning.as_bytes());
        rest.is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'?' | b'/')))
    })
}

impl<Io: AsyncRead + Unpin> AsyncRead for Prefixed<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read_to < self.seen_to {
            let length = buffer.remaining().min(self.seen_to - self.read_to);
            let from = self.read_to;
            buffer.put_slice(&self.seen[from..from + length]);
            self.read_to += length;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Prefixed<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_health_and_login_are_recognised() {
        for text in [
            "GET /healthz HTTP",
            "GET /readyz HTTP/",
            "GET /login?x",
            "POST /login HTTP",
            "GET /assets/a.css",
        ] {
            assert!(is_health(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "G",
            "GET /healthz",
            "GET /healthzz ",
            "GET /api/v1/task",
            "GET /login-links",
            "POST /healthz ",
        ] {
            assert!(!is_health(text.as_bytes()), "{text}");
        }
    }
}
