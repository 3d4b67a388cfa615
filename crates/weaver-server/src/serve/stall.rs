//! A connection that gives up on a client that does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weaver_core::clock::{Clock, Sleep};

/// Fails writes that make no progress for too long. Reads are bounded elsewhere: by the time for headers and
/// for the request as a whole.
pub(super) struct Stalling<Io> {
    io: Io,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// Runs while a write waits for the client.
    stalled: Option<Sleep>,
}

impl<Io> Stalling<Io> {
    pub(super) fn new(io: Io, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self { io, clock, timeout, stalled: None }
    }

    /// Passes an answer on, and notes whether the client keeps us waiting.
    fn watch<T>(&mut self, context: &mut Context<'_>, answer: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if answer.is_ready() {
            self.stalled = None;
            return answer;
        }
        let (clock, timeout) = (&self.clock, self.timeout);
        let stalled =
            self.stalled.get_or_insert_with(|| clock.sleep_until(clock.monotonic().saturating_add(timeout)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read what is sent to it",
        )))
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Stalling<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Stalling<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.io).poll_write(context, bytes);
        self.watch(context, answer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let answer = Pin::new(&mut self.io).poll_flush(context);
        self.watch(context, answer)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let answer = Pin::new(&mut self.io).poll_shutdown(context);
        self.watch(context, answer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.watch(context, answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
