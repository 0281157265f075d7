//! `own` finds out whether this process runs in a given container. Whoever pauses that one is frozen before the daemon's
//! answer arrives, and nobody lets the container go on.
//!
//! The kernel is asked about this process, and nothing else is: anybody can choose a hostname, and on the host the table of
//! mounts names every container. What the kernel does not tell is passed over.

use std::fs;

/// The control groups of this process.
const GROUPS: &str = "/proc/self/cgroup";
/// The mounts that this process sees.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The daemon mounts this file into each container, from a folder that has the container's id as its name.
const HOSTNAME: &str = "/etc/hostname";

/// Whether this process runs in the container with this id. `upper` is the folder of the container's own changes, if its
/// daemon names one.
pub(super) fn is_own(id: &str, upper: Option<&str>) -> bool {
    is_of(id, upper, &told(GROUPS), &told(MOUNTS))
}

/// What a file of the kernel says; nothing if it cannot be read. Paths in it may be of any bytes.
fn told(file: &str) -> String {
    fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
}

/// The same of a process with these control groups and these mounts.
fn is_of(id: &str, upper: Option<&str>, groups: &str, mounts: &str) -> bool {
    if id.is_empty() {
        return false;
    }
    if is_in_group(id, groups) {
        return true;
    }
    match (upper.and_then(layer), upper_of_root(mounts).and_then(layer)) {
        (Some(upper), Some(own)) => upper == own,
        // A container without a network of its own has this file of another one, so this is asked last.
        _ => has_hostname_of(id, mounts),
    }
}

/// Whether a group, or one above it, is the container's: all below a frozen group are frozen. A process that sees only its
/// own group sees no name, so a `false` proves nothing.
fn is_in_group(id: &str, groups: &str) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/')).any(|group| container_of(group) == id)
}

/// The container's id, in the name of a group that is one's: `ID`, `docker-ID.scope` or `libpod-ID.scope`.
fn container_of(group: &str) -> &str {
    let name = group.strip_suffix(".scope").unwrap_or(group);
    name.strip_prefix("docker-").or_else(|| name.strip_prefix("libpod-")).unwrap_or(name)
}

/// The folder in which the root of this process keeps changes, if the root is an overlay.
fn upper_of_root(mounts: &str) -> Option<&str> {
    let root = mounted_at("/", mounts).filter(|mount| mount.kind == "overlay")?;
    root.options.split(',').find_map(|option| option.strip_prefix("upperdir="))
}

/// The daemon's name of a layer, and the folder in it. What is above depends on who looks, and may be left out.
fn layer(upper: &str) -> Option<(&str, &str)> {
    let (above, folder) = upper.trim_end_matches('/').rsplit_once('/')?;
    let name = above.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some((name, folder))
}

/// Whether the file with the hostname comes from a folder of the container.
fn has_hostname_of(id: &str, mounts: &str) -> bool {
    mounted_at(HOSTNAME, mounts).is_some_and(|mount| mount.root.split('/').any(|part| part == id))
}

/// A line of the table of mounts.
struct Mount<'a> {
    /// What of the file system is mounted.
    root: &'a str,
    /// Where.
    point: &'a str,
    /// The type of the file system.
    kind: &'a str,
    /// The options of the file system.
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Spaces in paths are written as `\040`, so they part only fields. How many optional fields there are differs.
    fn of(line: &'a str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        Some(Self {
            root: mount.next()?,
            point: mount.next()?,
            kind: file_system.next()?,
            options: file_system.nth(1)?,
        })
    }
}

/// What is mounted at exactly this path. Of several the last one covers the others.
fn mounted_at<'a>(point: &str, mounts: &'a str) -> Option<Mount<'a>> {
    mounts.lines().filter_map(Mount::of).rfind(|mount| mount.point == point)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "1e0a83c9f53075c85f7df97555c2d9960c23b9bb5c51f1f56840876f0aaa57d9";
    const OTHER: &str = "8de3bc42500fd3734e5c4ef780b564808b986196a50feecf0944aafab7fd56ef";
    /// The names of their layers.
    const WEB_LAYER: &str = "67b285d5d2621bec3f3c9ef17bb92f61b411c64d64e947a7d6500a540d71f622";
    const OTHER_LAYER: &str = "5ccecd141596283ab4dd8a7d76dc475ca775c752dd4042b650c083db4cc39085";
    /// What a process sees of its groups that has a namespace for them.
    const PRIVATE: &str = "0::/\n";
    const PLAIN_ROOT: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";

    fn upper(layer: &str) -> String {
        format!("/var/lib/docker/overlay2/{layer}/diff")
    }

    /// The line of a root that keeps its changes in `upper`.
    fn overlay(point: &str, upper: &str) -> String {
        let lower = "lowerdir=/var/lib/docker/overlay2/l/A:/var/lib/docker/overlay2/l/B";
        format!(
            "72 48 0:39 / {point} rw,relatime master:2 - overlay overlay rw,{lower},upperdir={upper},workdir=/w\n"
        )
    }

    /// The line of a file that a daemon has mounted out of a container's folder.
    fn hostname(point: &str, id: &str) -> String {
        format!(
            "95 72 254:0 /var/lib/docker/containers/{id}/hostname {point} rw,relatime - ext4 /dev/vda rw\n"
        )
    }

    #[test]
    fn a_group_of_the_container_or_above_tells() {
        let own = [
            format!("9:name=systemd:/docker/{WEB}\n0::/docker/{WEB}\n"),
            format!("0::/system.slice/docker-{WEB}.scope\n"),
            format!("0::/machine.slice/libpod-{WEB}.scope/container\n"),
            format!("4:memory:/\n0::/docker/{WEB}/docker/{OTHER}\n"),
            format!("0::/../{WEB}\n"),
            format!("3:cpu,cpuacct:/a:b/{WEB}\n"),
        ];
        for groups in own {
            assert!(is_of(WEB, Some(&upper(WEB_LAYER)), &groups, ""), "{groups}");
        }
        let others = [
            PRIVATE.to_owned(),
            format!("0::/docker/{OTHER}\n"),
            format!("0::/docker/{}\n", &WEB[..12]),
            format!("0::/docker/{WEB}-init\n"),
            format!("0::/docker/a{WEB}\n"),
            format!("1:{WEB}:/\n"),
        ];
        for groups in others {
            assert!(!is_of(WEB, Some(&upper(WEB_LAYER)), &groups, PLAIN_ROOT), "{groups}");
        }
    }

    #[test]
    fn the_changes_below_the_root_tell_where_groups_do_not() {
        let mounts = overlay("/", &upper(WEB_LAYER)) + &hostname(HOSTNAME, WEB);
        assert!(is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
        assert!(!is_of(OTHER, Some(&upper(OTHER_LAYER)), PRIVATE, &mounts));
        // A daemon with many layers mounts them from its folder.
        let mounts = overlay("/", &format!("{WEB_LAYER}/diff"));
        assert!(is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
        assert!(!is_of(OTHER, Some(&upper(OTHER_LAYER)), PRIVATE, &mounts));
    }

    #[test]
    fn a_container_with_the_network_of_another_is_not_taken_for_it() {
        let mounts = overlay("/", &upper(OTHER_LAYER)) + &hostname(HOSTNAME, WEB);
        assert!(!is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
        assert!(is_of(OTHER, Some(&upper(OTHER_LAYER)), PRIVATE, &mounts));
    }

    #[test]
    fn the_file_with_the_hostname_tells_where_layers_do_not() {
        // The daemon names no folder of changes, or the root is no overlay.
        let mounts = overlay("/", "/var/lib/containerd/snapshots/12/fs") + &hostname(HOSTNAME, WEB);
        assert!(is_of(WEB, None, PRIVATE, &mounts));
        assert!(!is_of(OTHER, None, PRIVATE, &mounts));
        let mounts = PLAIN_ROOT.to_owned() + &hostname(HOSTNAME, WEB);
        assert!(is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
        let line = format!(
            "9 8 0:26 /containers/overlay-containers/{WEB}/userdata/hostname {HOSTNAME} rw - tmpfs tmpfs rw\n"
        );
        assert!(is_of(WEB, None, PRIVATE, &line));
    }

    #[test]
    fn a_host_that_sees_the_mounts_of_all_containers_is_in_none() {
        let below = format!("/var/lib/docker/overlay2/{WEB_LAYER}/merged");
        let shm =
            format!("58 27 0:48 / /var/lib/docker/containers/{WEB}/mounts/shm rw shared:4 - tmpfs shm rw\n");
        let mounts = PLAIN_ROOT.to_owned()
            + &overlay(&below, &upper(WEB_LAYER))
            + &shm
            + &hostname(&format!("{below}{HOSTNAME}"), WEB);
        for upper in [Some(upper(WEB_LAYER)), None] {
            assert!(!is_of(WEB, upper.as_deref(), "0::/user.slice/session-1.scope\n", &mounts));
        }
        // One whose own root is an overlay, too.
        let mounts = overlay("/", "/cow/upper") + &mounts[PLAIN_ROOT.len()..];
        assert!(!is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
    }

    #[test]
    fn of_several_roots_the_last_one_counts() {
        let mounts = PLAIN_ROOT.to_owned() + &overlay("/", &upper(WEB_LAYER));
        assert!(is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
        let mounts = overlay("/", &upper(WEB_LAYER)) + PLAIN_ROOT;
        assert!(!is_of(WEB, Some(&upper(WEB_LAYER)), PRIVATE, &mounts));
    }

    #[test]
    fn what_says_nothing_is_passed_over() {
        for mounts in ["", "\n", " - ", "1 2 3 / / rw", "1 2 3 / / rw - overlay", "- - - - -\n"] {
            assert!(!is_of(WEB, Some(&upper(WEB_LAYER)), "", mounts), "{mounts:?}");
            assert!(!is_of(WEB, Some("diff"), "0\n::\n:::\n", mounts), "{mounts:?}");
        }
        // Nothing is not the name of a group.
        assert!(!is_of("", None, PRIVATE, &hostname(HOSTNAME, "")));
        assert!(told("/proc/self/nothing").is_empty());
    }
}
