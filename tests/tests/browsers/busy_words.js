// What the busy page and whoever reads it back have in common.
globalThis.done = request => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
});
// No two rows are alike in any part.
globalThis.row = number => `${number}:`.padEnd(2000, `${(number * 2654435761) % 4294967296}.`);
'ready'
