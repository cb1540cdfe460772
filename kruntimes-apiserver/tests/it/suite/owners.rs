//! Owner references and what follows from them.

use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PropagationPolicy},
    runtime::wait::{await_condition, conditions},
};
use serde_json::json;

use super::{Room, Shaped as _, Widget, a_widget};

async fn gone(room: &Room, widget: &Widget) {
    let uid = widget.uid().unwrap();
    let name = widget.name_any();
    await_condition(room.widgets.clone(), &name, conditions::is_deleted(&uid))
        .await
        .unwrap();
}

async fn until(room: &Room, name: &str, seen: impl Fn(&Widget) -> bool) {
    let condition = |found: Option<&Widget>| found.is_some_and(&seen);
    await_condition(room.widgets.clone(), name, condition)
        .await
        .unwrap();
}

pub(crate) async fn a_chain_of_three_follows_its_head(client: Client) {
    let room = Room::open(client).await;
    let head = room.create(a_widget("head")).await;
    let middle = room.create(a_widget("middle").owned_by(&head)).await;
    let tail = room.create(a_widget("tail").owned_by(&middle)).await;
    let bystander = room.create(a_widget("bystander")).await;
    room.widgets
        .delete("head", &DeleteParams::background())
        .await
        .unwrap();
    gone(&room, &middle).await;
    gone(&room, &tail).await;
    assert_eq!(room.widgets.get("bystander").await.unwrap(), bystander);
}

pub(crate) async fn in_the_foreground_the_owner_goes_last(client: Client) {
    let room = Room::open(client).await;
    let owner = room.create(a_widget("owner")).await;
    let held = a_widget("dependent")
        .owned_by(&owner)
        .held_by("suite.example.org/a");
    let dependent = room.create(held).await;
    let leaf = room.create(a_widget("leaf").owned_by(&dependent)).await;
    let marked = room
        .widgets
        .delete("owner", &DeleteParams::foreground())
        .await
        .unwrap();
    assert_eq!(marked.left().unwrap().finalizers(), ["foregroundDeletion"]);
    until(&room, "dependent", |widget| {
        widget.metadata.deletion_timestamp.is_some()
    })
    .await;
    gone(&room, &leaf).await;
    assert!(
        room.widgets
            .get("owner")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    room.widgets
        .patch("dependent", &PatchParams::default(), &release)
        .await
        .unwrap();
    gone(&room, &owner).await;
    assert!(room.widgets.get_opt("dependent").await.unwrap().is_none());
}

pub(crate) async fn orphans_outlive_their_owner(client: Client) {
    let room = Room::open(client).await;
    let owner = room.create(a_widget("owner")).await;
    let dependent = room.create(a_widget("dependent").owned_by(&owner)).await;
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    room.widgets.delete("owner", &params).await.unwrap();
    gone(&room, &owner).await;
    let orphan = room.widgets.get("dependent").await.unwrap();
    assert_eq!(orphan.uid(), dependent.uid());
    assert!(orphan.owner_references().is_empty());
}

pub(crate) async fn an_owner_that_never_existed_owns_nothing(client: Client) {
    let room = Room::open(client).await;
    let mut stranger = room.create(a_widget("owner")).await;
    stranger.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let dependent = room.create(a_widget("dependent").owned_by(&stranger)).await;
    gone(&room, &dependent).await;
    assert!(room.widgets.get_opt("owner").await.unwrap().is_some());
}

pub(crate) async fn one_living_owner_is_enough(client: Client) {
    let room = Room::open(client).await;
    let one = room.create(a_widget("one")).await;
    let other = room.create(a_widget("other")).await;
    let dependent = room
        .create(a_widget("dependent").owned_by(&one).owned_by(&other))
        .await;
    room.widgets
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    until(&room, "dependent", |widget| {
        widget.owner_references().len() == 1
    })
    .await;
    let left = room.widgets.get("dependent").await.unwrap();
    assert_eq!(left.owner_references()[0].uid, other.uid().unwrap());
    room.widgets
        .delete("other", &DeleteParams::default())
        .await
        .unwrap();
    gone(&room, &dependent).await;
}
