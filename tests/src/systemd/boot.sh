# Boots systemd in the namespaces that it is started in: its files are those of this host, and what it writes is in memory.
# The arguments are an empty folder, and files that it finds in /srv.
set -eu
folder=$1 root=$1/root
shift
mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"
for file; do cp -r "$file" "$root/srv/"; done
cd "$root"
for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs $place; done
chmod 1777 tmp
for name in null zero full random urandom tty fuse; do
    touch dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
# Nothing of the kernel's settings is for it to change.
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
# What this host starts is not started here, and its disks stay away.
rm -rf etc/systemd/system/*.wants etc/systemd/system/*.requires
: >etc/fstab
printf '[Unit]\nDescription=Nothing but what is asked for\n' >etc/systemd/system/alone.target
mkdir before
pivot_root . before
umount -l before
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=alone.target --show-status=false
