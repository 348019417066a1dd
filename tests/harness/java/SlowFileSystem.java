import java.io.IOException;
import java.net.URI;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** A local disk that behaves as object stores do: each write takes 50 ms, and a rename copies and then deletes. */
public class SlowFileSystem extends RawLocalFileSystem {
  private static final int WRITE_MS = 50;

  @Override
  public String getScheme() {
    return "slow";
  }

  @Override
  public URI getUri() {
    return URI.create("slow:///");
  }

  @Override
  public FSDataOutputStream create(Path path, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    pause();
    return super.create(path, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
      short replication, long blockSize, Progressable progress) throws IOException {
    pause();
    return super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    if (!exists(from)) {
      return false;
    }
    boolean isInto = exists(to) && getFileStatus(to).isDirectory();
    copy(from, isInto ? new Path(to, from.getName()) : to);
    return delete(from, true);
  }

  private void copy(Path from, Path to) throws IOException {
    if (getFileStatus(from).isDirectory()) {
      mkdirs(to);
      for (var inner : listStatus(from)) {
        copy(inner.getPath(), new Path(to, inner.getPath().getName()));
      }
    } else {
      Path copied = new Path(to.getParent(), "." + to.getName() + "." + UUID.randomUUID());
      FileUtil.copy(this, from, this, copied, false, true, getConf());
      super.rename(copied, to); // a store copies by itself: nobody sees half a copy
    }
  }

  private static void pause() throws IOException {
    try {
      Thread.sleep(WRITE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException(e);
    }
  }
}
