//! `Listen` says where a server is reached: an address, or a socket in the file system.

use std::{
    fmt, fs, io,
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    str::FromStr,
};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::peer::{LocalUser, Peer};

/// The beginning of a socket's address.
const UNIX: &str = "unix:";
/// Only this user reaches the socket, as long as nobody says otherwise.
const SOCKET_MODE: u32 = 0o600;
/// Everybody reaches it; the kernel tells who they are.
const OPEN_SOCKET_MODE: u32 = 0o666;

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// At an address; a port of 0 is any that is free.
    Address(SocketAddr),
    /// Through a socket in the file system.
    Socket(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return match Path::new(path).is_absolute() {
                true => Ok(Self::Socket(path.into())),
                false => Err("after unix: comes an absolute path, as in unix:/run/pstore.sock".to_owned()),
            };
        }
        let wrong = "it takes an address and a port, as 127.0.0.1:7070, or unix:/run/pstore.sock";
        text.parse().map(Self::Address).map_err(|_| wrong.to_owned())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Socket(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Listen {
    /// As callers write it.
    pub fn url(&self, is_encrypted: bool) -> String {
        match (self, is_encrypted) {
            (Self::Socket(_), _) => self.to_string(),
            (Self::Address(_), true) => format!("https://{self}"),
            (Self::Address(_), false) => format!("http://{self}"),
        }
    }

    /// Whether requests leave this host, where others on the way can read them.
    pub fn is_exposed(&self) -> bool {
        matches!(self, Self::Address(address) if !address.ip().is_loopback())
    }

    /// Other users of this host reach a socket only if `is_for_others`.
    pub(crate) async fn bind(&self, is_for_others: bool) -> io::Result<Listener> {
        match self {
            Self::Address(address) => TcpListener::bind(address).await.map(Listener::Tcp),
            Self::Socket(path) => {
                free(path).await?;
                let (listener, identity) =
                    socket(path, if is_for_others { OPEN_SOCKET_MODE } else { SOCKET_MODE })?;
                Ok(Listener::Unix { listener, path: path.clone(), identity })
            }
        }
    }
}

/// Accepts connections. Removes its socket when it is dropped.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf, identity: Identity },
}

/// Tells one file from all others: its device and its inode.
type Identity = (u64, u64);

fn identity(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// A connection, as it was accepted.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Connection {
    /// Where it came from.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Self::Tcp(_, from) => Peer::Address(from.ip()),
            Self::Unix(stream) => {
                let user = stream.peer_cred().ok();
                Peer::Socket(user.map(|user| LocalUser { uid: user.uid(), gid: user.gid() }))
            }
        }
    }
}

impl Listener {
    /// Where it can be reached: with the port that was chosen.
    pub(crate) fn place(&self) -> io::Result<Listen> {
        Ok(match self {
            Self::Tcp(listener) => Listen::Address(listener.local_addr()?),
            Self::Unix { path, .. } => Listen::Socket(path.clone()),
        })
    }

    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // An answer goes out as it is written.
                let _ = stream.set_nodelay(true);
                Ok(Connection::Tcp(stream, peer))
            }
            Self::Unix { listener, .. } => {
                listener.accept().await.map(|(stream, _)| Connection::Unix(stream))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another server may have put its own socket there.
        if let Self::Unix { path, identity: own, .. } = self
            && identity(path).is_ok_and(|found| found == *own)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Fails if somebody listens there, or if it is no socket. One that a server left behind may be replaced.
async fn free(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists, and is no socket"));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody else listens there")),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Binds in a directory that nobody else can enter, and moves the socket once it is closed to others:
/// at no moment can anybody else connect.
fn socket(path: &Path, mode: u32) -> io::Result<(UnixListener, Identity)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    };
    let mut distinct = [0; 8];
    getrandom::fill(&mut distinct).map_err(io::Error::other)?;
    let apart = parent.join(format!(".pstore-{:016x}", u64::from_ne_bytes(distinct)));
    fs::DirBuilder::new().mode(0o700).create(&apart)?;
    let within = apart.join(name);
    let bound = UnixListener::bind(&within).and_then(|listener| {
        fs::set_permissions(&within, fs::Permissions::from_mode(mode))?;
        let identity = identity(&within)?;
        fs::rename(&within, path)?;
        Ok((listener, identity))
    });
    let _ = fs::remove_file(&within);
    let _ = fs::remove_dir(&apart);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_socket() {
        for good in ["127.0.0.1:7070", "[::1]:0"] {
            assert_eq!(good.parse::<Listen>().unwrap().url(false), format!("http://{good}"));
            assert_eq!(good.parse::<Listen>().unwrap().url(true), format!("https://{good}"));
        }
        assert_eq!("unix:/run/x".parse::<Listen>().unwrap().url(false), "unix:/run/x");
        for wrong in ["", "7070", "localhost", "unix:", "unix:x", "127.0.0.1"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
        let exposed = |text: &str| text.parse::<Listen>().unwrap().is_exposed();
        assert!(exposed("0.0.0.0:1") && exposed("10.0.0.7:1") && !exposed("127.0.0.1:1"));
    }

    #[tokio::test]
    async fn a_socket_is_closed_to_others_and_goes_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listen = Listen::Socket(path.clone());
        let listener = listen.bind(false).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        UnixStream::connect(&path).await.unwrap();
        assert_eq!(listen.bind(false).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists() && fs::read_dir(folder.path()).unwrap().next().is_none());
        // One that a killed server left is replaced, another file is not.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(listen.bind(false).await.unwrap());
        // Whoever cannot be asked may live.
        let other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert!(listen.bind(false).await.is_err() && path.exists());
        drop(other);
        fs::remove_file(&path).unwrap();
        // The socket of a server that came later stays.
        let early = listen.bind(false).await.unwrap();
        fs::remove_file(&path).unwrap();
        let late = listen.bind(false).await.unwrap();
        drop(early);
        UnixStream::connect(&path).await.unwrap();
        drop(late);
        fs::write(&path, "").unwrap();
        assert_eq!(listen.bind(false).await.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
