package awscluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// Moto is a running moto server, the widely used simulator of AWS in Python.
type Moto struct {
	// URL serves all APIs.
	URL  string
	cmd  *exec.Cmd
	dir  string
	done chan error
}

// ErrNoMoto says that no moto_server was found.
var ErrNoMoto = errors.New("moto_server not found: install it with `pip install 'moto[server]==5.2.5'` and put it on the PATH, or name it in MOTO_SERVER")

// StartMoto starts a moto server of its own on a free port, with the image that
// the manifests name as its only one: moto's thousand default images make all
// its answers slow. Close it when done.
func StartMoto(ctx context.Context, images ...string) (*Moto, error) {
	program, err := motoProgram()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "moto")
	if err != nil {
		return nil, fmt.Errorf("start moto: %w", err)
	}
	m := &Moto{dir: dir, done: make(chan error, 1)}
	if err := m.start(ctx, program, images); err != nil {
		return nil, errors.Join(fmt.Errorf("start moto: %w", err), os.RemoveAll(dir))
	}
	return m, nil
}

func motoProgram() (string, error) {
	for _, candidate := range []string{os.Getenv("MOTO_SERVER"), "/opt/moto/bin/moto_server", "moto_server"} {
		if candidate == "" {
			continue
		}
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", ErrNoMoto
}

// motoListens is moto's line about where it listens; it picks the port itself,
// so that two servers never race for one.
var motoListens = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

func (m *Moto) start(ctx context.Context, program string, images []string) error {
	file := filepath.Join(m.dir, "amis.json")
	if err := os.WriteFile(file, motoImages(images), 0o600); err != nil {
		return err
	}
	m.cmd = exec.Command(program, "-H", "127.0.0.1", "-p", "0")
	m.cmd.Env = append(os.Environ(), "MOTO_AMIS_PATH="+file, "PYTHONUNBUFFERED=1")
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	listening := make(chan string, 1)
	go func() {
		// The pipe is read to its end, or moto would block on its own log.
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if found := motoListens.FindStringSubmatch(lines.Text()); found != nil {
				listening <- found[1]
			}
		}
		m.done <- m.cmd.Wait()
	}()
	const patience = time.Minute
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m.URL = <-listening:
		return nil
	case err := <-m.done:
		return fmt.Errorf("%s ended: %w", program, err)
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%s did not listen within %s", program, patience)
	}
	_ = m.cmd.Process.Kill()
	<-m.done
	return err
}

// Close ends the server.
func (m *Moto) Close() error {
	_ = m.cmd.Process.Kill()
	<-m.done
	return os.RemoveAll(m.dir)
}

func motoImages(ids []string) []byte {
	images := make([]map[string]any, 0, len(ids))
	for _, id := range ids {
		images = append(images, map[string]any{
			"ami_id": id, "state": "available", "public": true, "owner_id": "801119661308",
			"image_location": "amazon/example", "image_type": "machine", "architecture": "x86_64",
			"platform": nil, "name": "example-node-image", "description": "node image of the examples",
			"virtualization_type": "hvm", "hypervisor": "xen", "sriov": "simple",
			"root_device_name": "/dev/sda1", "root_device_type": "ebs",
		})
	}
	data, err := json.Marshal(images)
	if err != nil {
		panic(err) // strings always marshal
	}
	return data
}

// fitMoto takes out of a manifest what moto cannot hold: it has no throughput
// of volumes (it answers 0), and it refuses rules of protocol 4, for it wants
// ports on every protocol but -1.
func (m *Manifest) fitMoto() {
	for _, t := range m.MachineTemplates {
		spec := &t.Spec.Template.Spec
		if spec.RootVolume != nil {
			spec.RootVolume.Throughput = nil
		}
		for i := range spec.NonRootVolumes {
			spec.NonRootVolumes[i].Throughput = nil
		}
	}
	cni := m.AWSCluster.Spec.NetworkSpec.CNI
	if cni == nil {
		return
	}
	cni.CNIIngressRules = slices.DeleteFunc(cni.CNIIngressRules, func(r infrav1.CNIIngressRule) bool {
		return r.Protocol == infrav1.SecurityGroupProtocolIPinIP
	})
}
