//! Watches that stall and break off.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyDataStream, BodyExt as _};
use tokio::time::{Instant, sleep, sleep_until};

use super::{FaultLayer, fate::WatchFate, unit};
use crate::{
    answer::{self, AnswerBody, BoxError},
    ids::Splitmix,
};

/// A watch on its way through trouble.
struct Troubled {
    pieces: BodyDataStream<AnswerBody>,
    random: Splitmix,
    layer: FaultLayer,
    cut_at: Option<Instant>,
    loud: bool,
    ended: bool,
}

impl FaultLayer {
    /// Puts the stalls and the cut of a watch into its stream.
    pub(super) fn trouble(
        &self,
        answer: Response<AnswerBody>,
        fate: &WatchFate,
    ) -> Response<AnswerBody> {
        let random = Splitmix::new(self.handle.lock().random.draw());
        let (parts, body) = answer.into_parts();
        let troubled = Troubled {
            pieces: body.into_data_stream(),
            random,
            layer: self.clone(),
            cut_at: fate.cut_after.map(|after| Instant::now() + after),
            loud: fate.loud,
            ended: false,
        };
        let mut answer = answer::stream("application/json", troubled.into_stream());
        *answer.headers_mut() = parts.headers;
        answer
    }
}

impl Troubled {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
        stream::unfold(self, |mut watch| async move {
            let piece = watch.next().await?;
            Some((piece, watch))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.ended {
            return None;
        }
        let Some(cut_at) = self.cut_at else {
            return self.piece().await;
        };
        tokio::select! {
            biased;
            () = sleep_until(cut_at) => {
                self.ended = true;
                self.layer.handle.lock().counts.watches_cut += 1;
                self.loud.then(|| Err(self.layer.reset()))
            }
            piece = Self::piece_of(&mut self.pieces, &mut self.random, &self.layer) => piece,
        }
    }

    async fn piece(&mut self) -> Option<Result<Bytes, BoxError>> {
        Self::piece_of(&mut self.pieces, &mut self.random, &self.layer).await
    }

    async fn piece_of(
        pieces: &mut BodyDataStream<AnswerBody>,
        random: &mut Splitmix,
        layer: &FaultLayer,
    ) -> Option<Result<Bytes, BoxError>> {
        let piece = pieces.next().await?;
        let (roll, share) = (unit(random), unit(random));
        let stall = {
            let mut state = layer.handle.lock();
            let strikes = state.active && roll < state.plan.watch_stall;
            state.counts.watch_stalls += u64::from(strikes);
            let range = &state.plan.delay_for;
            let span = range.end().saturating_sub(*range.start());
            strikes.then(|| *range.start() + span.mul_f64(share))
        };
        if let Some(stall) = stall {
            sleep(stall).await;
        }
        Some(piece)
    }
}
