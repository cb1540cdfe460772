"""Uses the API as programs with the Python client do: kubeconfig in, `held` out."""

import sys

from kubernetes import client, config, dynamic, watch

GROUP = ("suite.example.org", "v1", "default", "widgets")
DEADLINE = 60


def widget(name, color):
    return {
        "apiVersion": "suite.example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {"by": "python"}},
        "spec": {"color": color},
    }


def custom_objects(api):
    """Each event of a watch leads to the next write, so every one must arrive at once."""
    start = api.list_namespaced_custom_object(*GROUP)["metadata"]["resourceVersion"]
    api.create_namespaced_custom_object(*GROUP, widget("w", "red"))
    seen = []
    stream = watch.Watch().stream(
        api.list_namespaced_custom_object,
        *GROUP,
        label_selector="by=python",
        resource_version=start,
        timeout_seconds=DEADLINE,
    )
    for event in stream:
        seen.append((event["type"], event["object"]["spec"]["color"]))
        if event["type"] == "ADDED":
            api.patch_namespaced_custom_object(*GROUP, "w", {"spec": {"color": "blue"}})
        elif event["type"] == "MODIFIED":
            api.delete_namespaced_custom_object(*GROUP, "w")
        else:
            break
    assert seen == [("ADDED", "red"), ("MODIFIED", "blue"), ("DELETED", "blue")], seen
    try:
        api.get_namespaced_custom_object(*GROUP, "w")
        raise AssertionError("it is still there")
    except client.ApiException as refusal:
        assert refusal.status == 404 and refusal.reason == "Not Found", refusal


def status_and_pages(api):
    for number in range(3):
        api.create_namespaced_custom_object(*GROUP, widget(f"p{number}", "red"))
    api.patch_namespaced_custom_object_status(*GROUP, "p0", {"status": {"phase": "Done"}})
    assert api.get_namespaced_custom_object(*GROUP, "p0")["status"] == {"phase": "Done"}
    names, token = [], None
    while token != "":
        page = api.list_namespaced_custom_object(*GROUP, limit=2, _continue=token)
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert names == ["p0", "p1", "p2"], names
    api.delete_collection_namespaced_custom_object(*GROUP, label_selector="by=python")
    assert api.list_namespaced_custom_object(*GROUP)["items"] == []


def typed_objects(core):
    data = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="python"), data={"a": "1"})
    made = core.create_namespaced_config_map("default", data)
    made.data["b"] = "2"
    core.replace_namespaced_config_map("python", "default", made)
    try:
        core.replace_namespaced_config_map("python", "default", made)
        raise AssertionError("a stale write went through")
    except client.ApiException as refusal:
        assert refusal.status == 409, refusal
    names = [item.metadata.name for item in core.list_namespaced_config_map("default").items]
    assert "python" in names, names
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        "default",
        send_initial_events=True,
        resource_version_match="NotOlderThan",
        allow_watch_bookmarks=True,
        timeout_seconds=DEADLINE,
    )
    for event in stream:
        if event["type"] == "BOOKMARK":
            break
        names.remove(event["object"].metadata.name)
    assert names == [], names
    core.delete_namespaced_config_map("python", "default")


def discovered_objects(connection):
    widgets = dynamic.DynamicClient(connection).resources.get(
        api_version="suite.example.org/v1", kind="Widget"
    )
    widgets.create(widget("d", "red"), namespace="default")
    changes = [{"op": "replace", "path": "/spec/color", "value": "blue"}]
    changed = widgets.patch(
        changes, name="d", namespace="default", content_type="application/json-patch+json"
    )
    assert changed.spec.color == "blue", changed
    widgets.delete(name="d", namespace="default")


def applied_objects(connection):
    widgets = dynamic.DynamicClient(connection).resources.get(
        api_version="suite.example.org/v1", kind="Widget"
    )
    applied = widgets.server_side_apply(
        widget("a", "red"), namespace="default", field_manager="python"
    )
    assert applied.spec.color == "red", applied
    try:
        widgets.server_side_apply(widget("a", "blue"), namespace="default", field_manager="other")
        raise AssertionError("two appliers own one field")
    except client.ApiException as refusal:
        assert refusal.status == 409, refusal
    widgets.delete(name="a", namespace="default")


def main():
    connection = config.new_client_from_config(config_file=sys.argv[1])
    custom_objects(client.CustomObjectsApi(connection))
    status_and_pages(client.CustomObjectsApi(connection))
    typed_objects(client.CoreV1Api(connection))
    discovered_objects(connection)
    applied_objects(connection)
    print("held")


main()
