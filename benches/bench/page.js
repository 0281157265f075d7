// What every page does when it is visited; DATA is set by the page before it.
const loaded = new Promise(r => document.readyState === 'complete' ? r() : addEventListener('load', r));
async function visit(mail) {
  await loaded;
  await Promise.all(DATA.fetches.map(u => fetch(u).then(r => r.arrayBuffer())));
  const seen = JSON.parse(localStorage.getItem('seen') || '[]');
  seen.push({page: location.pathname, title: document.title, note: document.querySelector('p').innerText.slice(0, 400)});
  localStorage.setItem('seen', JSON.stringify(seen.slice(-60)));
  sessionStorage.setItem('last', location.href);
  document.cookie = 'view_' + DATA.page + '=' + btoa(document.title).slice(0, 80) + '; max-age=31536000; path=/';
  if (DATA.app && mail) { await install(); await sync(mail); await edit(mail); }
  return true;
}
async function install() {
  const registration = await navigator.serviceWorker.register('/sw.js?release=' + DATA.release);
  const worker = registration.installing || registration.waiting || registration.active;
  if (worker.state !== 'activated')
    await new Promise(r => worker.addEventListener('statechange', () => worker.state === 'activated' && r()));
}
async function sync(mail) {
  const open = indexedDB.open('mailbox', 1);
  open.onupgradeneeded = () => {
    const store = open.result.createObjectStore('messages', {keyPath: 'id'});
    store.createIndex('updated', 'updated');
    open.result.createObjectStore('attachments');
  };
  const db = await new Promise((r, x) => { open.onsuccess = () => r(open.result); open.onerror = x; });
  const messages = await (await fetch('/api/mail.json?bytes=' + mail.bytes + '&part=' + mail.part, {cache: 'no-store'})).json();
  const blobs = [];
  for (let i = 0; i < mail.blobs; i++)
    blobs.push(await (await fetch('/media/mail-' + mail.part + '-' + i + '.m4s', {cache: 'no-store'})).blob());
  const tx = db.transaction(['messages', 'attachments'], 'readwrite');
  for (const m of messages) tx.objectStore('messages').put(m);
  blobs.forEach((b, i) => tx.objectStore('attachments').put(b, mail.part + '-' + i));
  for (let i = 0; i < mail.blobs / 2 && mail.part > 0; i++) tx.objectStore('attachments').delete((mail.part - 1) + '-' + i);
  await new Promise((r, x) => { tx.oncomplete = r; tx.onerror = x; });
  db.close();
}
// A database in one file, as SQLite in the browser keeps it: filled once, then pages here and there.
async function edit(mail) {
  const directory = await navigator.storage.getDirectory();
  const handle = await directory.getFileHandle('notes.db', {create: true});
  const size = (await handle.getFile()).size;
  const bytes = await (await fetch('/api/notes.json?bytes=' + (size ? 200000 : 2500000) + '&part=' + mail.part, {cache: 'no-store'})).arrayBuffer();
  const file = await handle.createWritable({keepExistingData: true});
  if (!size) await file.write(bytes);
  for (let i = 0; size && i + 4096 <= bytes.byteLength; i += 4096) {
    const place = Math.imul(i + mail.part, 2654435761) >>> 0;
    await file.write({type: 'write', position: place % (size >> 12) * 4096, data: bytes.slice(i, i + 4096)});
  }
  await file.close();
}
