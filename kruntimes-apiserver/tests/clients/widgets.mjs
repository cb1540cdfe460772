// Uses the API as programs with the JavaScript client do: kubeconfig in, `held` out.

import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

const place = { group: 'suite.example.org', version: 'v1', namespace: 'default', plural: 'widgets' };
const widget = (name, color) => ({
    apiVersion: 'suite.example.org/v1',
    kind: 'Widget',
    metadata: { name, namespace: 'default', labels: { by: 'node' } },
    spec: { color },
});
const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);

// Each event of a watch leads to the next write, so every one must arrive at once.
async function customObjects(config) {
    const api = config.makeApiClient(k8s.CustomObjectsApi);
    const start = (await api.listNamespacedCustomObject(place)).metadata.resourceVersion;
    await api.createNamespacedCustomObject({ ...place, body: widget('w', 'red') });
    const seen = [];
    await new Promise((resolve, reject) => {
        let watching;
        const next = async (type, object) => {
            seen.push(`${type} ${object.spec.color}`);
            if (type === 'ADDED') {
                const body = { spec: { color: 'blue' } };
                await api.patchNamespacedCustomObject({ ...place, name: 'w', body }, merge);
            } else if (type === 'MODIFIED') {
                await api.deleteNamespacedCustomObject({ ...place, name: 'w' });
            } else {
                (await watching).abort();
                resolve();
            }
        };
        watching = new k8s.Watch(config).watch(
            '/apis/suite.example.org/v1/namespaces/default/widgets',
            { resourceVersion: start, labelSelector: 'by=node', timeoutSeconds: 60 },
            (type, object) => next(type, object).catch(reject),
            (error) => (seen.length === 3 ? resolve() : reject(error ?? new Error('the watch ended'))),
        );
        watching.catch(reject);
    });
    assert.deepEqual(seen, ['ADDED red', 'MODIFIED blue', 'DELETED blue']);
    await assert.rejects(api.getNamespacedCustomObject({ ...place, name: 'w' }), { code: 404 });
}

async function typedObjects(config) {
    const core = config.makeApiClient(k8s.CoreV1Api);
    const body = { metadata: { name: 'node' }, data: { a: '1' } };
    const made = await core.createNamespacedConfigMap({ namespace: 'default', body });
    made.data.b = '2';
    const change = { name: 'node', namespace: 'default', body: made };
    await core.replaceNamespacedConfigMap(change);
    await assert.rejects(core.replaceNamespacedConfigMap(change), { code: 409 });
    const listed = await core.listNamespacedConfigMap({ namespace: 'default' });
    assert.ok(listed.items.some((item) => item.metadata.name === 'node' && item.data.b === '2'));
    await core.deleteNamespacedConfigMap({ name: 'node', namespace: 'default' });
}

// An informer lists, watches, and keeps a picture of its own.
async function informed(config) {
    const api = config.makeApiClient(k8s.CustomObjectsApi);
    const informer = k8s.makeInformer(
        config,
        '/apis/suite.example.org/v1/namespaces/default/widgets',
        () => api.listNamespacedCustomObject(place),
    );
    const added = new Promise((resolve) => informer.on('add', resolve));
    await informer.start();
    await api.createNamespacedCustomObject({ ...place, body: widget('seen', 'red') });
    assert.equal((await added).metadata.name, 'seen');
    await informer.stop();
    await api.deleteNamespacedCustomObject({ ...place, name: 'seen' });
}

async function discoveredObjects(config) {
    const api = k8s.KubernetesObjectApi.makeApiClient(config);
    await api.create(widget('d', 'red'));
    const change = { ...widget('d', 'blue'), spec: { color: 'blue' } };
    const args = [undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch];
    assert.equal((await api.patch(change, ...args)).spec.color, 'blue');
    await api.delete(widget('d', 'blue'));
}

async function appliedObjects(config) {
    const api = k8s.KubernetesObjectApi.makeApiClient(config);
    const apply = (object, manager) =>
        api.patch(object, undefined, undefined, manager, false, k8s.PatchStrategy.ServerSideApply);
    assert.equal((await apply(widget('a', 'red'), 'node')).spec.color, 'red');
    await assert.rejects(apply(widget('a', 'blue'), 'other'), { code: 409 });
    await api.delete(widget('a', 'red'));
}

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
await customObjects(config);
await typedObjects(config);
await informed(config);
await discoveredObjects(config);
await appliedObjects(config);
console.log('held');
process.exit(0);
