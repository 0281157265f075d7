// Writes to every place a site can, without pause, and notes when the browser has acknowledged which number.
(async () => {
    const done = request => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    const asked = indexedDB.open('busy', 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore('rows');
    const database = await done(asked);
    const cache = await caches.open('busy');
    Object.assign(window, { log: [], cacheLog: [], lastCached: -12000, waits: [], failures: [] });
    window.addEventListener('error', event => failures.push(String(event.message)));
    window.addEventListener('unhandledrejection', event => failures.push(String(event.reason)));
    const stored = number => new Promise((resolve, reject) => {
        const began = performance.now();
        const change = database.transaction('rows', 'readwrite', { durability: 'strict' });
        change.objectStore('rows').put('x'.repeat(2000), number);
        change.oncomplete = () => { waits.push(performance.now() - began); resolve(); };
        change.onabort = () => reject(change.error);
    });
    // Chromium writes the list of a cache when nothing was put into it for some seconds.
    const cached = async number => {
        if (performance.now() - lastCached < 12000) return;
        lastCached = performance.now();
        await cache.put('/count', new Response(String(number)));
        cacheLog.push([Date.now(), number]);
    };
    const go = async number => {
        await Promise.all([
            stored(number),
            fetch(`/count?${number}`),
            cached(number),
        ]);
        localStorage.setItem('count', number);
        if (number % 16 == 0) history.pushState(null, '', `?visited=${number}`);
        log.push([Date.now(), number]);
        setTimeout(go, 0, number + 1);
    };
    go(1);
    return 'busy';
})()
