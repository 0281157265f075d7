// An app's service worker: keeps exactly ASSETS, set before it, in CacheStorage.
addEventListener('install', e => { skipWaiting(); e.waitUntil((async () => {
  const cache = await caches.open('precache');
  const have = new Set((await cache.keys()).map(r => new URL(r.url).pathname));
  const missing = ASSETS.filter(a => !have.has(a));
  for (let i = 0; i < missing.length; i += 8)
    await Promise.all(missing.slice(i, i + 8).map(async a => cache.put(a, await fetch(a, {cache: 'no-store'}))));
})()); });
addEventListener('activate', e => e.waitUntil((async () => {
  const cache = await caches.open('precache');
  for (const r of await cache.keys()) if (!ASSETS.includes(new URL(r.url).pathname)) await cache.delete(r);
})()));
