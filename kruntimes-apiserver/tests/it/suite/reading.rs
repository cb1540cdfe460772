//! What clients read besides objects, and the other forms in which they read objects.

use http::{Request, header};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use super::{Room, Shaped as _, a_widget, refused};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn get(path: &str, accept: &str) -> Request<Vec<u8>> {
    let request = Request::get(path).header(header::ACCEPT, accept);
    request.body(Vec::new()).unwrap()
}

/// Reads a table and returns its column names and the cells of its rows.
async fn table(client: &Client, path: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let table: Value = client.request(get(path, TABLE)).await.unwrap();
    assert_eq!(table["kind"], "Table", "{path}");
    let texts = |column: &Value| column["name"].as_str().unwrap().to_owned();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let rows = table["rows"].as_array().unwrap();
    let cells = rows
        .iter()
        .map(|row| row["cells"].as_array().unwrap().clone());
    (columns.iter().map(texts).collect(), cells.collect())
}

pub(crate) async fn custom_kinds_are_listed_as_tables(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("a").colored("blue")).await;
    room.create(a_widget("b")).await;
    let path = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets",
        room.namespace
    );
    let (columns, rows) = table(&room.client, &path).await;
    assert_eq!(columns, ["Name", "Color", "Age"]);
    let shown = |row: &[Value]| row[..2].to_vec();
    assert_eq!(shown(&rows[0]), ["a", "blue"]);
    assert_eq!(shown(&rows[1]), ["b", "red"]);
    assert!(rows[0][2].as_str().unwrap().ends_with('s'));
    let (_, one) = table(&room.client, &format!("{path}/b")).await;
    assert_eq!(one.len(), 1);
    assert_eq!(shown(&one[0]), ["b", "red"]);
}

pub(crate) async fn built_in_kinds_are_listed_as_tables(client: Client) {
    let room = Room::open(client).await;
    let maps: Api<ConfigMap> = Api::namespaced(room.client.clone(), &room.namespace);
    let map = json!({ "metadata": { "name": "m" }, "data": { "a": "1", "b": "2" } });
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(room.client.clone(), &room.namespace);
    let pod = json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let path = format!("/api/v1/namespaces/{}", room.namespace);
    let (columns, rows) = table(&room.client, &format!("{path}/configmaps/m")).await;
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(rows[0][..2], [json!("m"), json!(2)]);
    let (columns, rows) = table(&room.client, &format!("{path}/pods")).await;
    assert_eq!(
        columns[..5],
        ["Name", "Ready", "Status", "Restarts", "Age"].map(str::to_owned)
    );
    assert_eq!(rows[0][..4], ["p", "0/1", "Pending", "0"].map(Value::from));
    assert_eq!(rows[0].len(), columns.len());
}

pub(crate) async fn rows_bring_as_much_of_their_object_as_is_asked_for(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w").labelled("l", "x")).await;
    let path = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets",
        room.namespace
    );
    let object = |include: &str| {
        let request = get(&format!("{path}?includeObject={include}"), TABLE);
        async {
            let table: Value = room.client.request(request).await.unwrap();
            table["rows"][0]["object"].clone()
        }
    };
    assert_eq!(object("None").await, Value::Null);
    let metadata = object("Metadata").await;
    assert_eq!(metadata["kind"], "PartialObjectMetadata");
    assert_eq!(metadata["metadata"]["uid"], json!(made.metadata.uid));
    assert!(metadata["spec"].is_null());
    let whole = object("Object").await;
    assert_eq!(whole["kind"], "Widget");
    assert_eq!(whole["spec"]["color"], "red");
    let request = get(&format!("{path}?includeObject=Some"), TABLE);
    let status = refused(room.client.request::<Value>(request).await);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
}

pub(crate) async fn a_watch_of_tables_describes_its_columns_once(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("a")).await;
    room.create(a_widget("b")).await;
    let path = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets?watch=true&timeoutSeconds=1",
        room.namespace
    );
    let text = room.client.request_text(get(&path, TABLE)).await.unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<(&str, bool, &str)> = events
        .iter()
        .map(|event| {
            let table = &event["object"];
            (
                event["type"].as_str().unwrap(),
                table["columnDefinitions"].is_array(),
                table["rows"][0]["cells"][0].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(shown, [("ADDED", true, "a"), ("ADDED", false, "b")]);
}

pub(crate) async fn what_nobody_can_read_is_not_sent(client: Client) {
    let room = Room::open(client).await;
    for (path, accept) in [
        ("/api/v1/namespaces/default", "text/html"),
        (
            "/api/v1/namespaces/default",
            "application/json;as=Table;v=v9;g=meta.k8s.io",
        ),
        (
            "/api/v1/namespaces/default",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        ),
        ("/apis", "text/html"),
    ] {
        let status = refused(room.client.request::<Value>(get(path, accept)).await);
        assert_eq!(status.code, 406, "{path} {accept}");
        assert_eq!(status.reason, "NotAcceptable", "{path} {accept}");
    }
}

pub(crate) async fn all_groups_come_in_one_document(client: Client) {
    let groups: Value = client.request(get("/apis", AGGREGATED)).await.unwrap();
    assert_eq!(groups["kind"], "APIGroupDiscoveryList");
    let named = |list: &Value, field: &str, name: &str| {
        let mut list = list.as_array().unwrap().iter();
        list.find(|one| one[field] == name).unwrap().clone()
    };
    let groups = groups["items"].as_array().unwrap();
    let group = |name: &str| {
        let mut found = groups.iter();
        let found = found.find(|one| one["metadata"]["name"] == name);
        found.unwrap()["versions"][0].clone()
    };
    let suite = group("suite.example.org");
    assert_eq!(suite["version"], "v1");
    assert_eq!(suite["freshness"], "Current");
    let mut widgets = named(&suite["resources"], "resource", "widgets");
    widgets["verbs"]
        .as_array_mut()
        .unwrap()
        .sort_by_key(Value::to_string);
    let gvk = json!({ "group": "suite.example.org", "version": "v1", "kind": "Widget" });
    assert_eq!(
        widgets,
        json!({
            "resource": "widgets", "responseKind": gvk, "scope": "Namespaced", "singularResource": "widget",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["wd"],
            "subresources": [{ "subresource": "status", "responseKind": gvk, "verbs": ["get", "patch", "update"] }],
        })
    );
    let deployments = named(&group("apps")["resources"], "resource", "deployments");
    assert_eq!(deployments["categories"], json!(["all"]));
    assert_eq!(deployments["responseKind"]["kind"], "Deployment");
    let core: Value = client.request(get("/api", AGGREGATED)).await.unwrap();
    let core = &core["items"][0];
    assert_eq!(core["metadata"], json!({}));
    let namespaces = named(&core["versions"][0]["resources"], "resource", "namespaces");
    assert_eq!(namespaces["scope"], "Cluster");
    assert_eq!(namespaces["shortNames"], json!(["ns"]));
}

pub(crate) async fn definitions_can_be_looked_at(client: Client) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = "widgets.suite.example.org";
    let one: Value = client
        .request(get(&format!("{path}/{name}"), "application/json"))
        .await
        .unwrap();
    assert_eq!(one["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(one["spec"]["conversion"], json!({ "strategy": "None" }));
    assert_eq!(one["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(one["status"]["acceptedNames"]["singular"], "widget");
    let conditions = one["status"]["conditions"].as_array().unwrap();
    for wanted in ["NamesAccepted", "Established"] {
        let holds =
            |condition: &Value| condition["type"] == wanted && condition["status"] == "True";
        assert!(conditions.iter().any(holds), "{wanted}");
    }
    let found = format!("{path}?fieldSelector=metadata.name%3D{name}");
    let (columns, rows) = table(&client, &found).await;
    assert_eq!(columns, ["Name", "Created At"]);
    assert_eq!(
        rows,
        [[json!(name), one["metadata"]["creationTimestamp"].clone()]]
    );
    let again = serde_json::to_vec(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": name }, "spec": one["spec"],
    }));
    let create = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let status = refused(
        client
            .request::<Value>(create.body(again.unwrap()).unwrap())
            .await,
    );
    assert_eq!(
        (status.code, status.reason.as_str()),
        (409, "AlreadyExists")
    );
}

/// Returns the schemas and the paths of one group and version.
async fn schemas(client: &Client, path: &str) -> (Value, Value) {
    let index = client.request(get("/openapi/v3", "application/json"));
    let index: Value = index.await.unwrap();
    let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
    let document: Value = client.request(get(url, "application/json")).await.unwrap();
    (
        document["components"]["schemas"].clone(),
        document["paths"].clone(),
    )
}

pub(crate) async fn schemas_tell_what_custom_kinds_consist_of(client: Client) {
    let (schemas, paths) = schemas(&client, "apis/suite.example.org/v1").await;
    let widget = &schemas["org.example.suite.v1.Widget"];
    let gvk = json!({ "group": "suite.example.org", "version": "v1", "kind": "Widget" });
    assert_eq!(widget["x-kubernetes-group-version-kind"], json!([gvk]));
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(
        widget["properties"]["metadata"]["allOf"],
        json!([{ "$ref": meta }])
    );
    let spec = &widget["properties"]["spec"]["properties"];
    assert_eq!(spec["color"]["default"], "red");
    assert_eq!(spec["size"]["maximum"], 100.0);
    let items = &schemas["org.example.suite.v1.WidgetList"]["properties"]["items"]["items"];
    assert_eq!(
        items["$ref"],
        "#/components/schemas/org.example.suite.v1.Widget"
    );
    let one = &paths["/apis/suite.example.org/v1/namespaces/{namespace}/widgets/{name}"];
    assert_eq!(
        one["get"]["operationId"],
        "readSuiteExampleOrgV1NamespacedWidget"
    );
    assert_eq!(one["patch"]["x-kubernetes-group-version-kind"], gvk);
    let parameters = one["patch"]["parameters"].as_array().unwrap().iter();
    let names: Vec<&str> = parameters
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
        assert!(names.contains(&name), "{name}");
    }
    let formats = one["patch"]["requestBody"]["content"].as_object().unwrap();
    assert!(formats.contains_key("application/apply-patch+yaml"));
    assert!(!formats.contains_key("application/strategic-merge-patch+json"));
}

pub(crate) async fn schemas_tell_how_lists_of_built_in_kinds_merge(client: Client) {
    let (apps, paths) = schemas(&client, "apis/apps/v1").await;
    let field =
        |kind: &str, name: &str| apps[format!("io.k8s.api.{kind}")]["properties"][name].clone();
    let ports = field("core.v1.Container", "ports");
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    let arguments = field("core.v1.Container", "args");
    assert_eq!(arguments["x-kubernetes-list-type"], "atomic");
    let selector = field("apps.v1.DeploymentSpec", "selector");
    let selector = selector["allOf"][0]["$ref"].as_str().unwrap();
    assert!(selector.ends_with("meta.v1.LabelSelector"), "{selector}");
    let selector = &apps["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"];
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let one = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let formats = one["patch"]["requestBody"]["content"].as_object().unwrap();
    assert!(formats.contains_key("application/strategic-merge-patch+json"));
}
