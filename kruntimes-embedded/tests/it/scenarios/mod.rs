//! Whole workflows with the shipped parts over a Kubernetes-style API, ours or a real one.
//!
//! Every scenario is a function of a [`World`]: controllers, scheduler and a local node that work in one namespace
//! through a client, and know nothing of the server behind it.

mod actions;
mod calls;
mod endings;
mod graphs;
mod list;
mod pods;
mod restarts;
mod world;

pub(crate) use list::every_scenario;
pub(crate) use world::World;
pub(crate) use {actions::*, calls::*, endings::*, graphs::*, pods::*, restarts::*};

use kruntimes_apiserver::{ApiServer, Builder};

macro_rules! against_the_embedded_service {
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let definitions = kruntimes_core::crd::all().into_iter();
                let builder = definitions.fold(ApiServer::builder(), Builder::crd);
                let server = builder.build().unwrap();
                let _background = server.spawn_background();
                let world = World::start(server.client()).await;
                super::$name(&world).await;
                world.stop().await;
            }
        )+
    };
}

mod embedded {
    use super::*;

    every_scenario!(against_the_embedded_service);
}
