// Kubernetes' own strategic merge and its own types, to compare ours with: one JSON document a line in, one a line out.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type question struct {
	Base  json.RawMessage `json:"base"`
	Patch json.RawMessage `json:"patch"`
	// The spec of a pod, to be read and written as its type does.
	Pod json.RawMessage `json:"pod"`
}

type answer struct {
	Merged json.RawMessage `json:"merged,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func ask(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	if asked.Pod != nil {
		return written(asked.Pod)
	}
	merged, err := strategicpatch.StrategicMergePatch(asked.Base, asked.Patch, corev1.PodTemplateSpec{})
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Merged: merged}
}

func written(text []byte) answer {
	var pod corev1.PodSpec
	if err := json.Unmarshal(text, &pod); err != nil {
		return answer{Error: err.Error()}
	}
	again, err := json.Marshal(pod)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Merged: again}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := out.Encode(ask(lines.Bytes())); err != nil {
			log.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
