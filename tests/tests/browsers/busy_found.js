// The newest number in every place that the busy page writes to; rows -1 if one of them, or of those before, is missing
// or not whole.
(async () => {
    const tables = (await done(indexedDB.open('busy', 1))).transaction(['rows', 'kept']);
    const all = name => Promise.all(['getAllKeys', 'getAll'].map(get => done(tables.objectStore(name)[get]())));
    const [[places, rows], [keys, kept]] = await Promise.all([all('rows'), all('kept')]);
    const numbers = rows.map(found => parseInt(found)).sort((a, b) => a - b);
    const newest = numbers.at(-1) ?? 0;
    const first = Math.max(1, newest - 255);
    const whole = rows.every((found, at) => found === row(parseInt(found)) && parseInt(found) % 256 === places[at])
        && numbers.length === newest + 1 - first && numbers.every((number, at) => number === first + at)
        && keys.length === Math.floor(newest / 64) && keys.every((key, at) => key === at + 1 && kept[at] === key * 64);
    const cache = await caches.open('busy');
    // One that was being put there at that moment has no end, and was not acknowledged.
    const read = async key => Number(await (await cache.match(key)).text().catch(() => 0));
    const cached = await Promise.all((await cache.keys()).map(read));
    const worker = await navigator.serviceWorker.getRegistration();
    return {
        rows: whole ? newest : -1,
        local_storage: Number(localStorage.getItem('count')),
        cache_storage: Math.max(0, ...cached),
        service_worker: (worker?.active ?? worker?.waiting ?? worker?.installing)?.scriptURL.endsWith('/worker.js?busy') ?? false,
    };
})()
