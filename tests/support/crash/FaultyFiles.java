package unshuffle.faults;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.AccessDeniedException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The operations below a folder, numbered from 1, and what happens at one of them.
 *
 * <p>After a crash no operation has an effect any more, so the disk stays as the crash leaves it.
 */
public class Faults {
  private static String folder = null;
  private static int at = 0;
  private static String fault = "";
  private static boolean dead = false;
  private static boolean hit = false;
  private static long driver = 0L;
  private static final List operations = new ArrayList();

  public static synchronized void arm(String under, int operation, String kind) {
    folder = under;
    at = operation;
    fault = kind;
    dead = false;
    hit = false;
    operations.clear();
  }

  public static synchronized void disarm() {
    folder = null;
    dead = false;
  }

  /** The Python process to kill together with this one. */
  public static synchronized void driver(long process) {
    driver = process;
  }

  /** Another part of the process has crashed. */
  public static synchronized void die() {
    dead = true;
  }

  public static synchronized boolean isDead() {
    return dead;
  }

  public static synchronized boolean wasHit() {
    return hit;
  }

  /** The operations so far, a line each. */
  public static synchronized String operations() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < operations.size(); i++) {
      text.append(operations.get(i)).append('\n');
    }
    return text.toString();
  }

  /** What is to happen at an operation: "" (nothing), "after", "partly", "refused". Throws if it fails before it begins. */
  static synchronized String begin(String operation, Path path) throws IOException {
    String place = path.toUri().getPath();
    if (folder == null || !(place.equals(folder) || place.startsWith(folder + "/"))) {
      return "";
    }
    if (dead) {
      throw new IOException("Input/output error");
    }
    operations.add(operation + " " + place.substring(folder.length()));
    if (operations.size() != at) {
      return "";
    }
    hit = true;
    if (fault.equals("after") || fault.equals("partly") || fault.equals("refused") || fault.equals("crash partly")) {
      return fault;
    }
    if (fault.equals("kill")) {
      kill();
    }
    if (fault.equals("crash")) {
      dead = true;
      throw new IOException("Input/output error");
    }
    throw failure(fault, place, operation);
  }

  /** Python first: when this process is gone, it could still clean up. */
  private static void kill() throws IOException {
    try {
      Runtime.getRuntime().exec(new String[] {"kill", "-9", String.valueOf(driver)}).waitFor();
    } catch (InterruptedException error) {
      throw new IOException(error);
    }
    Runtime.getRuntime().halt(137);
  }

  static synchronized void end(String kind, Path path) throws IOException {
    if (kind.equals("after")) {
      throw new IOException("Input/output error");
    }
  }

  /** As Java reports it: a file that may not be created is "not found". */
  static IOException failure(String errno, String place, String operation) {
    if (errno.equals("ENOSPC")) {
      return new IOException("No space left on device");
    }
    if (errno.equals("EACCES")) {
      if (operation.equals("create")) {
        return new FileNotFoundException(place + " (Permission denied)");
      }
      return new AccessDeniedException(place);
    }
    return new IOException("Input/output error");
  }
}

class FaultyOutput extends OutputStream {
  private final OutputStream inner;
  private final Path path;

  FaultyOutput(OutputStream inner, Path path) {
    this.inner = inner;
    this.path = path;
  }

  public void write(int value) throws IOException {
    write(new byte[] {(byte) value}, 0, 1);
  }

  public void write(byte[] data, int start, int length) throws IOException {
    String kind = Faults.begin("write", path);
    if (kind.endsWith("partly")) {
      inner.write(data, start, length / 2);
      inner.flush();
      if (kind.equals("crash partly")) {
        Faults.die();
      }
      throw Faults.failure("ENOSPC", "", "write");
    }
    inner.write(data, start, length);
    // On disk at once: a crash loses nothing that was written before it, as when a process is killed.
    inner.flush();
    Faults.end(kind, path);
  }

  public void flush() throws IOException {
    inner.flush();
  }

  public void close() throws IOException {
    String kind;
    try {
      kind = Faults.begin("close", path);
    } catch (IOException error) {
      inner.close();
      throw error;
    }
    inner.close();
    Faults.end(kind, path);
  }
}

class FaultyInput extends FSInputStream {
  private final FSDataInputStream inner;
  private final Path path;

  FaultyInput(FSDataInputStream inner, Path path) {
    this.inner = inner;
    this.path = path;
  }

  public int read() throws IOException {
    Faults.end(Faults.begin("read", path), path);
    return inner.read();
  }

  public int read(byte[] data, int start, int length) throws IOException {
    Faults.end(Faults.begin("read", path), path);
    return inner.read(data, start, length);
  }

  public void seek(long position) throws IOException {
    inner.seek(position);
  }

  public long getPos() throws IOException {
    return inner.getPos();
  }

  public boolean seekToNewSource(long position) throws IOException {
    return inner.seekToNewSource(position);
  }

  public void close() throws IOException {
    inner.close();
  }
}

/** The local disk, with faults, and without checksum files. */
public class FaultyRaw extends RawLocalFileSystem {
  protected OutputStream createOutputStream(Path path, boolean append) throws IOException {
    String kind = Faults.begin("create", path);
    OutputStream inner = super.createOutputStream(path, append);
    return output(inner, path, kind);
  }

  protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission permission)
      throws IOException {
    String kind = Faults.begin("create", path);
    OutputStream inner = super.createOutputStreamWithMode(path, append, permission);
    return output(inner, path, kind);
  }

  private static OutputStream output(OutputStream inner, Path path, String kind) throws IOException {
    if (kind.equals("after")) {
      inner.close();
    }
    Faults.end(kind, path);
    return new FaultyOutput(inner, path);
  }

  public FSDataInputStream open(Path path, int buffer) throws IOException {
    Faults.end(Faults.begin("open", path), path);
    return new FSDataInputStream(new FaultyInput(super.open(path, buffer), path));
  }

  public boolean rename(Path source, Path target) throws IOException {
    String kind = Faults.begin("rename", source);
    if (kind.equals("refused")) {
      return false;
    }
    boolean done = super.rename(source, target);
    Faults.end(kind, source);
    return done;
  }

  public boolean delete(Path path, boolean recursive) throws IOException {
    String kind = Faults.begin("delete", path);
    if (kind.equals("refused")) {
      return false;
    }
    boolean done = super.delete(path, recursive);
    Faults.end(kind, path);
    return done;
  }

  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    String kind = Faults.begin("mkdirs", path);
    if (kind.equals("refused")) {
      return false;
    }
    boolean done = super.mkdirs(path, permission);
    Faults.end(kind, path);
    return done;
  }

  public boolean mkdirs(Path path) throws IOException {
    String kind = Faults.begin("mkdirs", path);
    if (kind.equals("refused")) {
      return false;
    }
    boolean done = super.mkdirs(path);
    Faults.end(kind, path);
    return done;
  }

  public FileStatus[] listStatus(Path path) throws IOException {
    Faults.end(Faults.begin("list", path), path);
    return super.listStatus(path);
  }

  public FileStatus getFileStatus(Path path) throws IOException {
    Faults.end(Faults.begin("status", path), path);
    return super.getFileStatus(path);
  }
}

/** The local disk as users have it, with faults. */
public class FaultyLocal extends LocalFileSystem {
  public FaultyLocal() {
    super(new FaultyRaw());
  }
}

/** The same for `FileContext`, by which a manifest is renamed. */
public class FaultyContext extends DelegateToFileSystem {
  public FaultyContext(URI uri, Configuration configuration) throws IOException, URISyntaxException {
    super(uri, new FaultyRaw(), configuration, "file", false);
  }
}
