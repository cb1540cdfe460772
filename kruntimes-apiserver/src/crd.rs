//! Turns a CustomResourceDefinition into served kinds.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};

use crate::{
    kind::{Kind, Rules, Served},
    registry::Registry,
    schema::KindSchema,
    server::BuildError,
    shape::Shape,
    table::Columns,
};

/// Adds every served version of one definition to the registry.
pub(crate) fn install(
    registry: &mut Registry,
    crd: &CustomResourceDefinition,
) -> Result<(), BuildError> {
    let spec = &crd.spec;
    let name = format!("{}.{}", spec.names.plural, spec.group);
    if crd
        .metadata
        .name
        .as_deref()
        .is_some_and(|given| given != name)
    {
        return Err(BuildError::Name { expected: name });
    }
    if registry.has_plural(&spec.group, &spec.names.plural) {
        return Err(BuildError::Duplicate { name });
    }
    let mut stored = spec.versions.iter().filter(|version| version.storage);
    let (Some(storage), None) = (stored.next(), stored.next()) else {
        return Err(BuildError::Storage { name });
    };
    let kind = Arc::new(stored_kind(registry.next_shelf(), crd, storage));
    // The storage version comes first: it speaks for the kind in background work.
    let others = spec.versions.iter().filter(|version| !version.storage);
    for version in std::iter::once(storage).chain(others.filter(|version| version.served)) {
        let columns = Columns::custom(version).map_err(|(path, reason)| BuildError::Column {
            name: name.clone(),
            path,
            reason,
        })?;
        registry.add(Served {
            kind: Arc::clone(&kind),
            group: spec.group.clone(),
            version: version.name.clone(),
            shape: if version.storage {
                Shape::Stored
            } else {
                Shape::Renamed
            },
            schema: Some(compile(crd, &version.name)?),
            through: None,
            selectable: version
                .selectable_fields
                .iter()
                .flatten()
                .map(|field| field.json_path.trim_start_matches('.').to_owned())
                .collect(),
            columns: Arc::new(columns),
        });
    }
    Ok(())
}

fn stored_kind(
    shelf: usize,
    crd: &CustomResourceDefinition,
    storage: &CustomResourceDefinitionVersion,
) -> Kind {
    let spec = &crd.spec;
    Kind {
        shelf,
        api_version: format!("{}/{}", spec.group, storage.name),
        name: spec.names.kind.clone(),
        list_name: spec
            .names
            .list_kind
            .clone()
            .unwrap_or_else(|| format!("{}List", spec.names.kind)),
        plural: spec.names.plural.clone(),
        singular: spec
            .names
            .singular
            .clone()
            .unwrap_or_else(|| spec.names.kind.to_lowercase()),
        short_names: spec.names.short_names.clone().unwrap_or_default(),
        categories: spec.names.categories.clone().unwrap_or_default(),
        namespaced: spec.scope != "Cluster",
        status: storage
            .subresources
            .as_ref()
            .is_some_and(|subresources| subresources.status.is_some()),
        generation: true,
        unconditional_update: false,
        fixed: false,
        rules: Rules::default(),
    }
}

fn compile(crd: &CustomResourceDefinition, version: &str) -> Result<KindSchema, BuildError> {
    KindSchema::compile(crd, version).map_err(|source| BuildError::Schema {
        name: format!("{}.{}", crd.spec.names.plural, crd.spec.group),
        version: version.to_owned(),
        source,
    })
}
