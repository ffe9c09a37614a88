export default { serverExternalPackages: ["holdfast"] };
