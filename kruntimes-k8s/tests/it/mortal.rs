//! A client that dies after some writes: the crash points of a controller.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request};
use kube::client::Body;
use tower::{Layer, Service};

/// Lets a number of writes through; later ones never reach the API and never return.
#[derive(Clone)]
pub(crate) struct Mortal {
    left: Arc<AtomicUsize>,
    /// Writes that were let through.
    pub(crate) written: Arc<AtomicUsize>,
}

impl Mortal {
    pub(crate) fn after(writes: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(writes)),
            written: Arc::default(),
        }
    }

    fn allows(&self, method: &Method) -> bool {
        if method == Method::GET {
            return true;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl<S> Layer<S> for Mortal {
    type Service = MortalService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        MortalService {
            inner,
            fate: self.clone(),
        }
    }
}

pub(crate) struct MortalService<S> {
    inner: S,
    fate: Mortal,
}

impl<S> Service<Request<Body>> for MortalService<S>
where
    S: Service<Request<Body>, Error = Infallible>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.fate.allows(request.method()) {
            Box::pin(self.inner.call(request))
        } else {
            Box::pin(std::future::pending())
        }
    }
}
