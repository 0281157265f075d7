// Writes to every place a site can, without pause, and notes when the browser has acknowledged which number.
(async () => {
    const asked = indexedDB.open('busy', 1);
    asked.onupgradeneeded = () => ['rows', 'kept'].forEach(name => asked.result.createObjectStore(name));
    const database = await done(asked);
    const cache = await caches.open('busy');
    await navigator.serviceWorker.register('/worker.js?busy');
    Object.assign(window, { log: [], cacheLog: [], lastCached: -12000, rowTimes: [], failures: [] });
    window.addEventListener('error', event => failures.push(String(event.message)));
    window.addEventListener('unhandledrejection', event => failures.push(String(event.reason)));
    const stored = number => new Promise((resolve, reject) => {
        const began = [Date.now(), performance.now()];
        const change = database.transaction(['rows', 'kept'], 'readwrite', { durability: 'strict' });
        // As many as are read back in any time; older ones make way, and some are kept for good.
        change.objectStore('rows').put(row(number), number % 256);
        if (number % 64 === 0) change.objectStore('kept').put(number, number / 64);
        change.oncomplete = () => { rowTimes.push([began[0], performance.now() - began[1]]); resolve(); };
        change.onabort = () => reject(change.error);
    });
    // Chromium writes the list of a cache when nothing was put into it for some seconds.
    const cached = async number => {
        if (performance.now() - lastCached < 12000) return;
        lastCached = performance.now();
        // Each for itself: one that is put in the place of another is not there for a while.
        await cache.put(`/count-${number}`, new Response(String(number)));
        cacheLog.push([Date.now(), number]);
        const all = await cache.keys();
        if (all.length > 8) await cache.delete(all[0]);
    };
    const go = async number => {
        await Promise.all([
            stored(number),
            fetch(`/count?${number}`),
            cached(number),
        ]);
        localStorage.setItem('count', number);
        if (number % 16 === 0) history.pushState(null, '', `?visited=${number}`);
        log.push([Date.now(), number]);
        setTimeout(go, 0, number + 1);
    };
    // What was noted since it was asked before.
    window.noted = () => ({
        log: log.splice(0), cache_log: cacheLog.splice(0), row_times: rowTimes.splice(0),
        failures: failures.splice(0),
    });
    // On from what another browser has left.
    const left = await done(database.transaction('rows').objectStore('rows').getAll());
    go(1 + left.reduce((newest, found) => Math.max(newest, parseInt(found)), 0));
    return 'busy';
})()
