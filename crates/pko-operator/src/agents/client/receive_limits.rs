//! The body of an agent's response, within the limits for memory, time and rate.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use super::receive_budget::{FREE_BYTES, MessagePermit, ReceiveShare};

pub(super) const MESSAGE_DEADLINE: Duration = Duration::from_secs(10);

/// The wait for a permit or for the time at which more is taken.
type Wait = BoxFuture<'static, Result<Option<MessagePermit>, Status>>;

pub(in crate::agents) struct LimitedBody {
    body: tonic::body::Body,
    share: ReceiveShare,
    message: MessageProgress,
    /// For the message that is being received.
    permit: Option<MessagePermit>,
    /// Data that waits for a permit or for its time.
    waiting: Option<(Wait, Bytes)>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// For the rest of a message that has begun to arrive.
    message_limit: Duration,
}

impl LimitedBody {
    pub(super) fn new(body: tonic::body::Body, share: ReceiveShare) -> Self {
        Self {
            body,
            share,
            message: MessageProgress::default(),
            permit: None,
            waiting: None,
            deadline: None,
            message_limit: MESSAGE_DEADLINE,
        }
    }

    #[cfg(test)]
    pub(super) fn with_message_limit(self, message_limit: Duration) -> Self {
        Self {
            message_limit,
            ..self
        }
    }

    /// Notes data that has arrived. Returns what it has to wait for.
    fn receive(&mut self, data: &[u8]) -> Option<Wait> {
        if !self.message.is_incomplete() {
            // The reader has decoded the message before it asks for more.
            self.permit = None;
        }
        self.message.advance(data);
        self.deadline = self
            .message
            .is_incomplete()
            .then(|| self.deadline.take())
            .map(|deadline| {
                deadline.unwrap_or_else(|| Box::pin(tokio::time::sleep(self.message_limit)))
            });
        let delay = self.share.throttle(data.len());
        let bytes = self.message.length;
        let needs_permit =
            self.permit.is_none() && self.message.is_incomplete() && bytes > FREE_BYTES;
        if delay.is_none() && !needs_permit {
            return None;
        }
        let share = self.share.clone();
        Some(Box::pin(async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            if needs_permit {
                return share.acquire(bytes).await.map(Some);
            }
            Ok(None)
        }))
    }

    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        let Some((future, _)) = &mut self.waiting else {
            return Poll::Ready(None);
        };
        let permit = ready!(future.as_mut().poll(context));
        let data = self.waiting.take().map(|(_, data)| data);
        Poll::Ready(data.map(|data| {
            if let Some(permit) = permit? {
                self.permit = Some(permit);
                // The time of the wait is not the agent's.
                self.deadline = Some(Box::pin(tokio::time::sleep(self.message_limit)));
            }
            Ok(data)
        }))
    }

    fn check_deadline(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        let deadline = self.deadline.as_mut();
        if deadline.is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            return Err(Status::deadline_exceeded(format!(
                "the agent did not send the rest of a message within {:?}",
                self.message_limit
            )));
        }
        Ok(())
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Some(data) = ready!(this.poll_waiting(context)) {
            return Poll::Ready(Some(data.map(Frame::data)));
        }
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                return match this.check_deadline(context) {
                    Ok(()) => Poll::Pending,
                    Err(late) => Poll::Ready(Some(Err(late))),
                };
            }
        };
        let Some(Ok(frame)) = frame else {
            return Poll::Ready(frame);
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        // Also for an agent that sends a little all the time.
        if let Err(late) = this.check_deadline(context) {
            return Poll::Ready(Some(Err(late)));
        }
        match this.receive(&data) {
            None => Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(wait) => {
                this.waiting = Some((wait, data));
                let data = ready!(this.poll_waiting(context));
                Poll::Ready(data.map(|data| data.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Where in a gRPC stream the received bytes end. A message has a flag and four bytes of its length
/// before it.
#[derive(Default)]
struct MessageProgress {
    prefix: Vec<u8>,
    /// Of the current message.
    length: usize,
    remaining: usize,
}

impl MessageProgress {
    const PREFIX_BYTES: usize = 5;

    fn advance(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let wanted = if self.remaining > 0 {
                self.remaining
            } else {
                Self::PREFIX_BYTES - self.prefix.len()
            };
            let (taken, rest) = data.split_at(wanted.min(data.len()));
            data = rest;
            if self.remaining > 0 {
                self.remaining -= taken.len();
                continue;
            }
            self.prefix.extend_from_slice(taken);
            if let &[_, first, second, third, fourth] = self.prefix.as_slice() {
                let length = u32::from_be_bytes([first, second, third, fourth]);
                self.length = usize::try_from(length).unwrap_or(usize::MAX);
                self.remaining = self.length;
                self.prefix.clear();
            }
        }
    }

    fn is_incomplete(&self) -> bool {
        self.remaining > 0 || !self.prefix.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(lengths: &[usize]) -> Vec<u8> {
        let message = |length: &usize| {
            let prefix = u32::try_from(*length).unwrap().to_be_bytes();
            [&[0][..], &prefix, &vec![7; *length]].concat()
        };
        lengths.iter().flat_map(message).collect()
    }

    #[test]
    fn message_progress_follows_any_division_into_frames() {
        let stream = messages(&[0, 1, 300, 5]);
        for size in [1, 2, 5, 7, 1000] {
            let mut progress = MessageProgress::default();
            for frame in stream.chunks(size) {
                progress.advance(frame);
            }
            assert!(!progress.is_incomplete(), "{size}");
            assert_eq!(progress.length, 5);
            progress.advance(&messages(&[70_000])[..8]);
            assert_eq!((progress.length, progress.remaining), (70_000, 69_997));
        }
    }
}
